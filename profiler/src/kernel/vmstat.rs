//! Counts of /proc/vmstat that no probe has.

use super::sources::{Sources, read};

/// Pages that were reclaimed and then needed again, since boot: of files and of anonymous memory, and of both before
/// 5.9.
const REFAULTS: [&str; 3] = ["workingset_refault_file", "workingset_refault_anon", "workingset_refault"];

/// Pages of the whole machine that were reclaimed and then needed again, since boot. `None` if the kernel does not
/// count them.
pub fn refaults(sources: &Sources) -> Option<u64> {
    let text = read(&sources.proc.join("vmstat"))?;
    let counts: Vec<u64> = text
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter(|(name, _)| REFAULTS.contains(name))
        .filter_map(|(_, count)| count.trim().parse().ok())
        .collect();
    (!counts.is_empty()).then(|| counts.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::super::sources::fixture::Fixture;
    use super::*;

    #[test]
    fn refaults_by_their_old_and_new_names() {
        let of = |text: &str| refaults(&Fixture::new(&[("proc/vmstat", text)]).sources);
        assert_eq!(of("pgfault 9\nworkingset_refault_anon 1\nworkingset_refault_file 41\n"), Some(42));
        assert_eq!(of("workingset_refault 7\nworkingset_activate 3\n"), Some(7));
        assert_eq!(of("pgfault 9\n"), None);
    }
}
