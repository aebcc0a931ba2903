//! The flat profiles side by side.

use std::collections::HashMap;

use serde::Serialize;

use super::statistics::{FALSE_DISCOVERIES, adjusted, two_proportions};
use super::{Key, Side, Test, key};
use crate::profile::flat::flat;
use crate::profile::kind::Kind;
use crate::profile::stacks::{Frame, Origin};

/// A function's part in both.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FunctionChange {
    /// What each side calls it, with the module or file; `None` where it is missing. Untrusted.
    pub names: [Option<String>; 2],
    /// Kernel or user; `None` for samples without a stack.
    pub origin: Option<Origin>,
    /// Share of all weight of the kind that falls on the function itself, 0 to 1; `None` where the source
    /// lists only some functions, and not this one.
    pub shares: [Option<f64>; 2],
    /// Whether chance explains the change; `None` where that was not tested, or there are too few samples.
    pub significance: Option<Significance>,
}

/// The outcome of a test.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Significance {
    /// Change in standard errors; positive where B has more.
    pub z: f64,
    /// Probability of such a change, or a larger one, by chance: adjusted for the number of functions.
    pub p: f64,
    /// Whether the change counts as real.
    pub significant: bool,
}

impl FunctionChange {
    /// Share in B less share in A; `None` where one is unknown.
    pub fn change(&self) -> Option<f64> {
        Some(self.shares[1]? - self.shares[0]?)
    }

    /// Share in B by share in A; `None` where one is unknown, or both are 0.
    pub fn ratio(&self) -> Option<f64> {
        let [Some(a), Some(b)] = self.shares else { return None };
        (a > 0.0 || b > 0.0).then(|| b / a)
    }

    /// The change, or the least that it may be taken for.
    fn size(&self) -> f64 {
        match self.shares {
            [Some(a), Some(b)] => (b - a).abs(),
            [a, b] => a.or(b).unwrap_or(0.0),
        }
    }
}

/// All functions of both sides, the largest change first.
pub fn functions(
    sides: &[Side<'_>; 2],
    kind: Kind,
    normalize: &dyn Fn(&str) -> &str,
    test: Test,
) -> Vec<FunctionChange> {
    let mut rows: HashMap<Option<Key<'_>>, Row> = HashMap::new();
    for (index, side) in sides.iter().enumerate() {
        for entry in flat(side.profile, kind) {
            let frame = entry.frame.map(|id| side.profile.frame(id));
            // What the source left out is no function.
            if frame.is_none() && side.partial {
                continue;
            }
            let row = rows.entry(frame.map(|frame| key(frame, normalize))).or_default();
            let name = || frame.map_or_else(|| "[no stack]".to_owned(), |frame| shown(frame, normalize));
            // Of clones that are one function here, the heaviest names it: it comes first.
            row.names[index].get_or_insert_with(name);
            row.weights[index] = Some(row.weights[index].unwrap_or(0).saturating_add(entry.weight));
        }
    }
    let mut functions: Vec<FunctionChange> = rows
        .into_iter()
        .map(|(key, row)| FunctionChange {
            names: row.names,
            origin: key.map(|(origin, _, _)| origin),
            shares: [0, 1].map(|index| sides[index].share_of(row.weights[index])),
            significance: None,
        })
        .collect();
    if test == Test::Samples {
        judge(&mut functions, sides.each_ref().map(|side| side.effective));
    }
    functions.sort_by(|a, b| {
        let name = |row: &FunctionChange| row.names.iter().flatten().min().cloned();
        b.size().total_cmp(&a.size()).then_with(|| (name(a), a.origin).cmp(&(name(b), b.origin)))
    });
    functions
}

/// The name as its source gave it. All places of a file without symbols are one row, which has its name.
fn shown(frame: &Frame, normalize: &dyn Fn(&str) -> &str) -> String {
    match frame.module.as_deref() {
        Some(file) if frame.origin == Origin::User && normalize(&frame.name) == file => file.to_owned(),
        _ => frame.qualified().into_owned(),
    }
}

#[derive(Default)]
struct Row {
    names: [Option<String>; 2],
    weights: [Option<u64>; 2],
}

/// Tests every function that has enough samples, and adjusts for their number.
fn judge(functions: &mut [FunctionChange], samples: [f64; 2]) {
    let tested: Vec<(usize, f64, f64)> = functions
        .iter()
        .enumerate()
        .filter_map(|(index, row)| {
            let [Some(a), Some(b)] = row.shares else { return None };
            let (z, p) = two_proportions([a, b], samples)?;
            Some((index, z, p))
        })
        .collect();
    let p: Vec<f64> = tested.iter().map(|(_, _, p)| *p).collect();
    for ((index, z, _), p) in tested.into_iter().zip(adjusted(&p)) {
        functions[index].significance = Some(Significance { z, p, significant: p <= FALSE_DISCOVERIES });
    }
}
