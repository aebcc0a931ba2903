//! Looks into the machine code of the functions that most samples fall on.

use std::time::Instant;

use aya::Ebpf;

use super::memory::Memory;
use crate::code::{self, disasm, samples, text};
use crate::profile::{Frame, Kind, Origin, Session};
use crate::symbolize::Processes;

/// Puts the code of the hottest functions into the session, and that of `wanted`, and what was found in it. What cannot
/// be read is left out.
pub fn look_into(session: &mut Session, ebpf: &mut Ebpf, processes: &Processes, wanted: Option<&str>) {
    if session.host.arch != disasm::ARCHITECTURE {
        return;
    }
    let started = Instant::now();
    let total = session.profile.total(Kind::Cpu);
    let mut functions: Vec<&Frame> = Vec::new();
    let mut others = 0;
    for (frame, samples) in samples::by_function(session) {
        let frame = session.profile.frame(frame);
        let is_wanted = wanted.is_some_and(|wanted| frame.is_called(wanted));
        let is_hot = samples >= code::LEAST_SAMPLES
            && samples as f64 >= code::LEAST_SHARE * total as f64
            && others < code::MOST_FUNCTIONS;
        if is_hot || is_wanted {
            functions.push(frame);
            others += 1;
        }
    }
    let of = |origin| -> Vec<&Frame> {
        functions.iter().copied().filter(|function| function.origin == origin).collect()
    };
    let (kernel, user) = (of(Origin::Kernel), of(Origin::User));
    let mut found = text::of_programs(session, &user, processes);
    if !kernel.is_empty() {
        match Memory::load(ebpf) {
            Ok(memory) => found.extend(text::of_kernel(session, &kernel, &memory)),
            Err(error) => tracing::debug!("the kernel's code cannot be read: {error:#}"),
        }
    }
    tracing::debug!("code of {} functions read after {:?}", found.len(), started.elapsed());
    let types = code::Programs::read(&found, processes, total, wanted);
    tracing::debug!("their types read after {:?}", started.elapsed());
    code::analyse(session, found, &types);
    tracing::debug!("looked into after {:?}", started.elapsed());
}
