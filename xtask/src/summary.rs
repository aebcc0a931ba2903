//! Adds up what the test binaries report.

use std::collections::BTreeMap;

/// Totals over all test binaries.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Tests that ran and passed.
    pub passed: usize,
    /// Tests that failed.
    pub failed: usize,
    /// Tests marked `#[ignore]`.
    pub ignored: usize,
    /// Tests that could not run here, with the reason.
    pub skipped: BTreeMap<String, String>,
}

impl Summary {
    /// Takes a line of `cargo test` into account, if it is one that libtest ends a binary with.
    pub fn add_line(&mut self, line: &str) {
        let Some(counts) = line.trim_end().strip_prefix("test result: ") else { return };
        // "ok. 3 passed; 0 failed; 1 ignored; ..."
        let Some((_, counts)) = counts.split_once(". ") else { return };
        for part in counts.split("; ") {
            match part.split_once(' ').and_then(|(n, what)| Some((n.parse::<usize>().ok()?, what))) {
                Some((n, "passed")) => self.passed += n,
                Some((n, "failed")) => self.failed += n,
                Some((n, "ignored")) => self.ignored += n,
                _ => {}
            }
        }
    }

    /// Takes the log of profiler/tests/common/skip.rs into account: lines of a name, a tab and a reason.
    ///
    /// libtest counts a test that skipped itself as passed, so it is moved from there.
    pub fn add_skipped(&mut self, log: &str) {
        for line in log.lines() {
            let (name, reason) = line.split_once('\t').unwrap_or((line, "no reason given"));
            if self.skipped.insert(name.to_owned(), reason.to_owned()).is_none() {
                self.passed = self.passed.saturating_sub(1);
            }
        }
    }

    /// Adds the results of the same tests under other circumstances, which `prefix` names.
    pub fn add(&mut self, other: Summary, prefix: &str) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
        let skipped = other.skipped.into_iter();
        self.skipped.extend(skipped.map(|(name, reason)| (format!("{prefix}: {name}"), reason)));
    }

    /// Why the run must count as failed, or `None`. `succeeded` is what cargo's exit status says.
    pub fn verdict(&self, succeeded: bool, max_skipped: usize) -> Option<String> {
        if self.failed > 0 {
            return Some(format!("{} tests failed", self.failed));
        }
        if !succeeded {
            return Some("cargo test failed outside the tests; its last messages say why".to_owned());
        }
        if self.passed == 0 {
            return Some("no test ran".to_owned());
        }
        if self.skipped.len() > max_skipped {
            return Some(format!(
                "{} tests could not run here, more than the {max_skipped} that may be missing",
                self.skipped.len()
            ));
        }
        None
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let skipped = self.ignored + self.skipped.len();
        write!(f, "{} passed, {} failed, {skipped} skipped", self.passed, self.failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
running 3 tests
test a ... ok
test result: is not this line
test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s

test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 7 filtered out; finished in 1.20s
";

    fn summary() -> Summary {
        let mut summary = Summary::default();
        OUTPUT.lines().for_each(|line| summary.add_line(line));
        summary
    }

    #[test]
    fn binaries_are_added_up() {
        assert_eq!(summary().to_string(), "5 passed, 1 failed, 1 skipped");
    }

    #[test]
    fn a_skipped_test_is_not_a_passed_one() {
        let mut summary = summary();
        summary.add_skipped("randread\tno fio\nxfs\tno mkfs.xfs\nxfs\tno mkfs.xfs\n");
        assert_eq!(summary.to_string(), "3 passed, 1 failed, 3 skipped");
        assert_eq!(summary.skipped["xfs"], "no mkfs.xfs");
    }

    #[test]
    fn skipped_tests_of_several_runs_stay_apart() {
        let mut total = Summary::default();
        for kernel in ["6.1", "7"] {
            let mut one = summary();
            one.add_skipped("xfs\tno module\n");
            total.add(one, kernel);
        }
        assert_eq!(total.to_string(), "8 passed, 2 failed, 4 skipped");
    }

    #[test]
    fn failures_and_silence_are_no_success() {
        let passed = |passed| Summary { passed, ..Summary::default() };
        assert_eq!(passed(1).verdict(true, 0), None);
        assert!(passed(0).verdict(true, 0).unwrap().contains("no test ran"));
        assert!(passed(1).verdict(false, 0).unwrap().contains("cargo test failed"));
        assert!(summary().verdict(true, 0).unwrap().contains("1 tests failed"));
    }

    #[test]
    fn too_many_skipped_tests_are_no_success() {
        let mut summary = Summary { passed: 9, ..Summary::default() };
        summary.add_skipped("a\tx\nb\tx\n");
        assert_eq!(summary.verdict(true, 2), None);
        assert!(summary.verdict(true, 1).unwrap().contains("2 tests could not run"));
    }
}
