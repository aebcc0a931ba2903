//! What was odd about an input that could be read all the same.

use super::error::Place;

/// Warnings that are kept. A damaged file would have one for each line.
const KEPT: usize = 20;

/// Something odd: the rest of the input was used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Where.
    pub place: Place,
    /// What, a sentence. May quote the input, so escape it before showing.
    pub text: String,
}

/// The first warnings of an input, and how many more there were.
#[derive(Clone, Debug, Default)]
pub struct Warnings {
    kept: Vec<Warning>,
    more: u64,
}

impl Warnings {
    /// Adds a warning. `text` is not called once enough are kept.
    pub fn add(&mut self, place: Place, text: impl FnOnce() -> String) {
        if self.kept.len() < KEPT {
            self.kept.push(Warning { place, text: text() });
        } else {
            self.more += 1;
        }
    }

    /// What is kept; the last one says how many there were beyond that.
    pub fn finish(mut self) -> Vec<Warning> {
        if self.more > 0 {
            let text = format!("{} more warnings of this input are not shown", self.more);
            self.kept.push(Warning { place: Place::Whole, text });
        }
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bounded_number_is_kept() {
        let mut warnings = Warnings::default();
        for line in 0..50 {
            warnings.add(Place::Line(line), || "odd".to_owned());
        }
        let warnings = warnings.finish();
        assert_eq!(warnings.len(), KEPT + 1);
        assert_eq!(warnings[KEPT].text, "30 more warnings of this input are not shown");
    }
}
