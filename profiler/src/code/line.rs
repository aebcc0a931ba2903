//! The cache line of a member: which of its neighbours are written often by their nature.

use crate::profile::{LineOfMember, MemberRef, Neighbour, Origin};
use crate::types::{Layout, Member, TypeId, TypeSource};

/// Bytes of a cache line of x86-64.
pub const LINE: u64 = 64;

/// Types that are written often by their nature, as their names begin, with the reason.
const OFTEN: &[(&str, &str)] = &[
    ("atomic", "an atomic counter"),
    ("_Atomic", "an atomic value"),
    ("refcount_t", "a reference count"),
    ("struct kref", "a reference count"),
    ("spinlock_t", "a spinlock"),
    ("raw_spinlock_t", "a spinlock"),
    ("rwlock_t", "a lock"),
    ("arch_spinlock_t", "a spinlock"),
    ("struct qspinlock", "a spinlock"),
    ("struct mutex", "a mutex"),
    ("pthread_mutex_t", "a mutex"),
    ("pthread_spinlock_t", "a spinlock"),
    ("struct rw_semaphore", "a reader-writer semaphore"),
    ("struct semaphore", "a semaphore"),
    ("struct lockref", "a lock with a reference count"),
    ("seqcount", "a sequence counter"),
    ("seqlock_t", "a sequence lock"),
    ("wait_queue_head_t", "a wait queue"),
    ("struct list_head", "a list, which every insertion and removal writes"),
    ("struct hlist_head", "a list, which every insertion and removal writes"),
    ("struct llist_head", "a list, which every insertion writes"),
];

/// The line that a member of a structure lies in, if the structure begins on a line.
pub fn of(types: &dyn TypeSource, structure: TypeId, member: &MemberRef, _origin: Origin) -> Option<LineOfMember> {
    let layout = types.layout(structure)?;
    let index = member.offset / LINE;
    let mut line = LineOfMember {
        index,
        bytes: LINE,
        caveat: None,
        often_written: Vec::new(),
        judgement: String::new(),
        advice: Vec::new(),
    };
    line.caveat = (layout.align.bytes() < LINE).then(|| {
        format!(
            "objects of this type need not begin on a cache line (alignment {}): which members share one may differ",
            layout.align.bytes()
        )
    });
    let (start, end) = line.range();
    for found in often_written(&layout) {
        let (path, offset, size, type_name, why) = found;
        let is_member = path == member.path || member.path.starts_with(&format!("{path}."));
        if offset < end && offset + size > start && !is_member {
            line.often_written.push(Neighbour { path, type_name, why: why.to_owned() });
        }
    }
    line.judgement = match line.often_written.as_slice() {
        [] => "nothing in the line is written often by its nature".to_owned(),
        found => {
            let names: Vec<String> = found.iter().map(|n| format!("{} ({})", n.path, n.why)).collect();
            format!("written often by nature: {}", names.join(", "))
        }
    };
    Some(line)
}

type Often = (String, u64, u64, String, &'static str);

fn often_written(layout: &Layout) -> Vec<Often> {
    fn walk(member: &Member, found: &mut Vec<Often>, depth: usize) {
        let known = OFTEN.iter().find(|(start, _)| member.type_name.starts_with(start) && !member.type_name.contains('*'));
        match known {
            Some((_, why)) => {
                found.push((member.path.clone(), member.offset(), member.size(), member.type_name.clone(), why));
            }
            None if depth < 16 => member.inner.iter().for_each(|inner| walk(inner, found, depth + 1)),
            None => {}
        }
    }
    let mut found = Vec::new();
    layout.members.iter().for_each(|member| walk(member, &mut found, 0));
    found
}
