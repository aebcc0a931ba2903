//! Is a change more than chance?

/// Share of false ones among the changes that are called significant, at most, on average.
///
/// One in a hundred, less than the usual one in twenty: samples of one run are not quite independent of each
/// other, which makes small changes look surer than they are.
pub const FALSE_DISCOVERIES: f64 = 0.01;

/// Samples that both sides must be expected to have of a function for the test to hold. Below five the
/// normal approximation does not (W. G. Cochran, Some methods for strengthening the common chi-squared
/// tests, Biometrics 10, 1954).
const LEAST_EXPECTED: f64 = 5.0;

/// The two-proportion z-test with pooled variance: for shares `p` of `n` samples,
///
/// ```text
/// z = (p2 - p1) / sqrt(p (1 - p) (1/n1 + 1/n2)),    p = (p1 n1 + p2 n2) / (n1 + n2)
/// ```
///
/// (J. L. Fleiss, B. Levin, M. C. Paik, Statistical Methods for Rates and Proportions, 3rd ed., 2003, section
/// 3.2, without continuity correction). Returns z and the two-sided p-value; `None` where there are too few
/// samples to say.
pub fn two_proportions([p1, p2]: [f64; 2], [n1, n2]: [f64; 2]) -> Option<(f64, f64)> {
    let pooled = (p1 * n1 + p2 * n2) / (n1 + n2);
    let expected = pooled.min(1.0 - pooled) * n1.min(n2);
    if expected.is_nan() || expected < LEAST_EXPECTED {
        return None;
    }
    let z = (p2 - p1) / (pooled * (1.0 - pooled) * (1.0 / n1 + 1.0 / n2)).sqrt();
    Some((z, libm::erfc(z.abs() / std::f64::consts::SQRT_2)))
}

/// Adjusted p-values by the procedure of Benjamini and Hochberg: those up to `q` are false discoveries in a
/// share of `q` at most (Y. Benjamini, Y. Hochberg, Controlling the false discovery rate, J. R. Stat. Soc. B
/// 57, 1995). Of m values in ascending order the i-th becomes the least of m/j p_j over all j >= i.
pub fn adjusted(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*b].total_cmp(&p[*a]));
    let mut adjusted = vec![1.0; p.len()];
    let mut least: f64 = 1.0;
    for (from_top, index) in order.into_iter().enumerate() {
        let rank = p.len() - from_top;
        // Never less than itself, as it might be by rounding.
        least = least.min((p[index] * p.len() as f64 / rank as f64).max(p[index]));
        adjusted[index] = least;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn assert_near(value: f64, expected: f64) {
        assert!((value - expected).abs() <= 1e-9 * expected.abs().max(1e-9), "{value} is not {expected}");
    }

    /// Expected values computed apart, in Python: z by the formula with `fractions.Fraction` up to the root,
    /// p by `math.erfc(abs(z) / math.sqrt(2))`.
    #[test]
    fn known_values() {
        for (x, n, z, p) in KNOWN {
            let (own_z, own_p) = two_proportions([x[0] / n[0], x[1] / n[1]], n).unwrap();
            assert_near(own_z, z);
            assert_near(own_p, p);
        }
    }

    const KNOWN: [([f64; 2], [f64; 2], f64, f64); 4] = [
        ([40.0, 20.0], [200.0, 200.0], -2.8005601680560197, 0.005101399646004982),
        ([2583.0, 275.0], [10000.0, 10000.0], -46.63252639331012, 0.0),
        ([120.0, 150.0], [1000.0, 1300.0], -0.3408894739457538, 0.7331867893028094),
        ([501.0, 540.0], [25000.0, 24000.0], 1.8877668180061966, 0.05905726165218812),
    ];

    #[test]
    fn too_few_samples_say_nothing() {
        assert_eq!(two_proportions([0.0, 4.0 / 1000.0], [1000.0, 1000.0]), None);
        assert_eq!(two_proportions([0.0, 0.0], [1e6, 1e6]), None);
        assert_eq!(two_proportions([0.5, 0.5], [0.0, 100.0]), None);
        assert_eq!(two_proportions([f64::NAN, 0.5], [100.0, 100.0]), None);
    }

    /// The example of the paper itself: 15 hypotheses, of which the procedure rejects four at 0.05.
    #[test]
    fn the_papers_example() {
        let p = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719,
            0.6528, 0.7590, 1.000,
        ];
        let adjusted = adjusted(&p);
        assert_eq!(adjusted.iter().filter(|p| **p <= 0.05).count(), 4);
        assert_near(adjusted[0], 0.0015);
        assert_near(adjusted[3], 0.0095 * 15.0 / 4.0);
        assert_near(adjusted[5], 0.0298 * 15.0 / 7.0);
        assert_near(adjusted[14], 1.0);
    }

    proptest! {
        #[test]
        fn adjusting_keeps_the_order(p in prop::collection::vec(0.0f64..=1.0, 0..50)) {
            let adjusted = adjusted(&p);
            for (index, value) in p.iter().enumerate() {
                prop_assert!(adjusted[index] >= *value && adjusted[index] <= 1.0);
                for (other, larger) in p.iter().enumerate().filter(|(_, other)| *other > value) {
                    prop_assert!(adjusted[other] >= adjusted[index], "{larger}");
                }
            }
        }

        #[test]
        fn the_other_way_round_it_is_the_same(x in (1u32..5000, 1u32..5000), n in (5000u32..9000, 5000u32..9000)) {
            let p = [f64::from(x.0) / f64::from(n.0), f64::from(x.1) / f64::from(n.1)];
            let n = [f64::from(n.0), f64::from(n.1)];
            let there = two_proportions(p, n);
            let back = two_proportions([p[1], p[0]], [n[1], n[0]]);
            prop_assert_eq!(there.is_some(), back.is_some());
            if let (Some((z, p)), Some((back_z, back_p))) = (there, back) {
                prop_assert!((z + back_z).abs() < 1e-9 && (p - back_p).abs() < 1e-9);
            }
        }
    }
}
