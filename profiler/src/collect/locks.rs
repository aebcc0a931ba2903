//! Gives the locks of a session their names.

use std::collections::{BTreeMap, HashMap};

use aya::Ebpf;
use rustc_hash::FxBuildHasher;

use super::memory::Memory;
use crate::diagnose::{LockClass, lock_of};
use crate::kernel::lock_names::LockNames;
use crate::kernel::memory::KernelMemory;
use crate::profile::{Kind, NamedBy, ProbeState, Session};

/// Locks that are named, those waited for longest: reading a structure takes some ten system calls.
const NAMED: usize = 200;

/// Names the locks: by their address, else by who waits for them.
pub fn name(session: &mut Session, ebpf: &mut Ebpf) {
    if session.locks.is_empty() {
        return;
    }
    let memory = Memory::load(ebpf).map_err(|error| format!("{error:#}"));
    let memory = memory.as_ref().map(|memory| memory as &dyn KernelMemory).map_err(Clone::clone);
    let mut names = LockNames::new(memory);
    let callers = by_caller(session);
    for (index, lock) in session.locks.iter_mut().enumerate() {
        let by_address = if index < NAMED { names.name(lock.address, lock.kind) } else { None };
        let named = by_address.or_else(|| {
            let name = callers.get(&(lock.address, LockClass::of(lock.kind)?))?;
            Some(((*name).to_owned(), NamedBy::Caller))
        });
        if let Some((name, by)) = named {
            lock.name = Some(name);
            lock.named_by = Some(by);
        }
    }
    if let Some(reason) = names.no_structures()
        && let Some(probe) = session.probes.iter_mut().find(|probe| probe.name == "lock")
        && let ProbeState::Attached { notes, .. } = &mut probe.state
    {
        notes
            .push(format!("locks are named by their callers, not by their structures: the kernel: {reason}"));
    }
}

/// Names of locks by the functions that wait for them: where these differ, the one with most of the time.
fn by_caller(session: &Session) -> HashMap<(u64, LockClass), &'static str, FxBuildHasher> {
    let profile = &session.profile;
    let mut votes: HashMap<(u64, LockClass), BTreeMap<&'static str, u64>, FxBuildHasher> = HashMap::default();
    for stack in profile.of_kind(Kind::LockWait) {
        let labels = profile.labels(stack.labels);
        let Some((address, class)) = labels.lock.zip(labels.lock_kind.and_then(LockClass::of)) else {
            continue;
        };
        let frames = stack.frames.iter().rev().map(|location| &*profile.frame_of(*location).name);
        if let Some(name) = lock_of(class, frames) {
            *votes.entry((address, class)).or_default().entry(name).or_default() += stack.weight;
        }
    }
    let most = |votes: BTreeMap<&'static str, u64>| votes.into_iter().max_by_key(|vote| vote.1);
    votes.into_iter().filter_map(|(lock, votes)| Some((lock, most(votes)?.0))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Labels, LockKind, Source};
    use crate::testing::{kernel, push};

    #[test]
    fn callers_name_a_lock_by_majority() {
        let mut session = Session::new(Source::Live);
        let mut wait = |lock, taker: &str, ns| {
            let labels = Labels { lock: Some(lock), lock_kind: Some(LockKind::Spin), ..Labels::default() };
            let labels = session.profile.intern_labels(labels);
            let frames = [taker, "_raw_spin_lock", "native_queued_spin_lock_slowpath"].map(kernel);
            push(&mut session.profile, Kind::LockWait, labels, &frames, ns);
        };
        wait(1, "alloc_fd", 50);
        wait(1, "close_fd", 60);
        wait(1, "dput", 100);
        wait(2, "something_else", 100);
        let names = by_caller(&session);
        assert_eq!(names.get(&(1, LockClass::Spin)), Some(&"files_struct.file_lock"));
        assert_eq!(names.get(&(2, LockClass::Spin)), None);
    }
}
