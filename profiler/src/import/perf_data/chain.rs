//! Call chains: addresses with markers between them that say whose they are.

use super::sample::Sample;

/// `PERF_RECORD_MISC_CPUMODE_MASK` and its values: where the CPU was.
mod mode {
    pub const MASK: u16 = 7;
    pub const KERNEL: u16 = 1;
    pub const USER: u16 = 2;
    pub const HYPERVISOR: u16 = 3;
}

/// Markers, `PERF_CONTEXT_*`: they are the last 4095 numbers.
mod context {
    pub const FIRST: u64 = -4095i64 as u64;
    pub const HYPERVISOR: u64 = -32i64 as u64;
    pub const KERNEL: u64 = -128i64 as u64;
    pub const USER: u64 = -512i64 as u64;
    /// Since Linux 6.19: a number follows under which a later record has the user stack.
    pub const USER_DEFERRED: u64 = -640i64 as u64;
}

/// Frames of a chain that are looked at. The kernel takes no more than 127, unless told otherwise.
const MAX_FRAMES: usize = 1024;

/// Whose code an address is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// The kernel's, or the hypervisor's where it is part of it.
    Kernel,
    /// The process's.
    User,
    /// A guest's, kernel or user.
    Guest,
}

/// An address of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Whose.
    pub space: Space,
    /// The address.
    pub address: u64,
    /// Whether execution was there; callers have the address that is returned to.
    pub exact: bool,
}

/// Puts the addresses of a sample into `links`, innermost first. Returns whether a user stack was put off
/// to a later record.
pub fn links(sample: &Sample<'_>, misc: u16, links: &mut Vec<Link>) -> bool {
    links.clear();
    let here = match misc & mode::MASK {
        mode::KERNEL | mode::HYPERVISOR => Space::Kernel,
        mode::USER => Space::User,
        _ => Space::Guest,
    };
    let mut deferred = false;
    let mut space = here;
    let mut exact = true;
    let mut chain = sample.chain;
    while let Some(address) = chain.as_mut().and_then(|chain| chain.u64()) {
        if address < context::FIRST {
            if links.len() < MAX_FRAMES {
                links.push(Link { space, address, exact });
            }
            exact = false;
            continue;
        }
        exact = true;
        space = match address {
            context::HYPERVISOR | context::KERNEL => Space::Kernel,
            context::USER => Space::User,
            context::USER_DEFERRED => {
                deferred = true;
                break;
            }
            _ => Space::Guest,
        };
    }
    // The sample's own address is what counts: with precise events the chain may begin beside it.
    let own = Link { space: here, address: sample.ip, exact: true };
    match links.first_mut() {
        Some(first) if first.space == here => *first = own,
        _ => links.insert(0, own),
    }
    deferred
}

#[cfg(test)]
mod tests {
    use super::super::bytes::Bytes;
    use super::*;

    fn of(ip: u64, misc: u16, chain: &[u64]) -> (Vec<(Space, u64, bool)>, bool) {
        let data: Vec<u8> = chain.iter().flat_map(|word| word.to_le_bytes()).collect();
        let chain = (!chain.is_empty()).then(|| Bytes::new(&data, false));
        let mut found = Vec::new();
        let deferred = links(&Sample { ip, chain, ..Sample::default() }, misc, &mut found);
        (found.into_iter().map(|link| (link.space, link.address, link.exact)).collect(), deferred)
    }

    #[test]
    fn kernel_then_user() {
        let chain = [context::KERNEL, 100, 101, context::USER, 7, 8];
        let expected = vec![
            (Space::Kernel, 99, true),
            (Space::Kernel, 101, false),
            (Space::User, 7, true),
            (Space::User, 8, false),
        ];
        assert_eq!(of(99, mode::KERNEL, &chain), (expected, false));
    }

    #[test]
    fn without_a_chain_the_sample_remains() {
        assert_eq!(of(5, mode::USER, &[]), (vec![(Space::User, 5, true)], false));
        // Kernel callers only, of a sample in user space.
        let chain = [context::KERNEL, 100];
        let expected = vec![(Space::User, 5, true), (Space::Kernel, 100, true)];
        assert_eq!(of(5, mode::USER, &chain), (expected, false));
        assert_eq!(of(5, 4, &[-2048i64 as u64, 6]).0, [(Space::Guest, 5, true)]);
    }

    #[test]
    fn a_deferred_stack_is_no_address() {
        let chain = [context::KERNEL, 100, context::USER_DEFERRED, 4711];
        assert_eq!(of(100, mode::KERNEL, &chain), (vec![(Space::Kernel, 100, true)], true));
    }
}
