//! Medians and spread.

/// Values of repeated measurements in one unit.
#[derive(Clone, Debug, Default)]
pub struct Series(Vec<f64>);

impl Series {
    /// Adds a value.
    pub fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    /// The median; 0 of nothing.
    pub fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        match sorted.len() {
            0 => 0.0,
            length if length % 2 == 1 => sorted[middle],
            _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
        }
    }

    /// Two cells of a table, `median | lowest to highest`.
    pub fn cells(&self, unit: &str) -> String {
        let lowest = self.0.iter().copied().fold(f64::INFINITY, f64::min);
        let highest = self.0.iter().copied().fold(0.0, f64::max);
        format!("{} {unit} | {} to {}", short(self.median()), short(lowest), short(highest))
    }
}

/// Three significant digits.
fn short(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        let series = |values: &[f64]| Series(values.to_vec());
        assert_eq!(series(&[3.0, 1.0, 2.0]).median(), 2.0);
        assert_eq!(series(&[4.0, 1.0, 2.0, 3.0]).median(), 2.5);
        assert_eq!(series(&[]).median(), 0.0);
        assert_eq!(series(&[3.0, 120.4, 20.25]).cells("ms"), "20.2 ms | 3.00 to 120");
    }
}
