//! Adds samples up by stack, in bounded memory, before their addresses have names.

use std::collections::HashMap;
use std::sync::Arc;

use rustc_hash::FxBuildHasher;

use crate::profile::Labels;

/// Frames of all distinct stacks from which on the CPU is no longer kept apart: 64 MiB.
const CROWDED: usize = 16 << 20;
/// And from which on new stacks are lost.
const FULL: usize = 24 << 20;
/// Distinct addresses at most.
const MAX_PLACES: usize = 2 << 20;
/// Distinct labels at most; what comes then has none.
const MAX_LABELS: usize = 1 << 18;

/// Something that can be executed: the kernel, a file, or nothing known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Code {
    /// The kernel and its modules; the address is as recorded.
    Kernel,
    /// An object by its index; the address is an offset in its file.
    Object(u32),
    /// User space where nothing is known to be mapped; the address is as recorded.
    Unknown,
    /// A guest of this machine.
    Guest,
}

/// An address in some code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Which code.
    pub code: Code,
    /// Address or offset.
    pub address: u64,
    /// Whether execution was there, and is not to return there: the address of a caller is the one
    /// behind the call.
    pub exact: bool,
}

/// Samples of a stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// How many.
    pub samples: u64,
    /// Sum of their periods.
    pub period: u64,
}

/// Whose a stack is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Who {
    /// Thread name.
    pub comm: Option<Arc<str>>,
    /// Process.
    pub pid: u32,
    /// CPU, while there is room for it.
    pub cpu: Option<u32>,
}

/// All distinct stacks.
#[derive(Debug, Default)]
pub struct Stacks {
    places: Numbered<Place>,
    who: Numbered<Who>,
    /// By the number of whose it is, then the places, outermost first.
    sums: HashMap<Box<[u32]>, Sum, FxBuildHasher>,
    frames: usize,
    /// Samples that no room was left for.
    pub lost: u64,
    /// Whether the CPU was given up.
    pub without_cpu: bool,
}

#[derive(Debug)]
struct Numbered<T> {
    items: Vec<T>,
    numbers: HashMap<T, u32, FxBuildHasher>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self { items: Vec::new(), numbers: HashMap::default() }
    }
}

impl<T: Clone + Eq + std::hash::Hash> Numbered<T> {
    fn number(&mut self, item: &T, most: usize) -> Option<u32> {
        if let Some(number) = self.numbers.get(item) {
            return Some(*number);
        }
        if self.items.len() >= most {
            return None;
        }
        let number = self.items.len() as u32;
        self.items.push(item.clone());
        self.numbers.insert(item.clone(), number);
        Some(number)
    }
}

impl Stacks {
    /// The number of a place; `None` where there is no room for another.
    pub fn place(&mut self, place: Place) -> Option<u32> {
        self.places.number(&place, MAX_PLACES)
    }

    /// The number of whose a stack is.
    pub fn who(&mut self, who: &Who) -> u32 {
        if self.without_cpu && who.cpu.is_some() {
            return self.who(&Who { cpu: None, ..who.clone() });
        }
        // The first is nobody.
        if self.who.items.is_empty() {
            self.who.number(&Who::default(), 1);
        }
        self.who.number(who, MAX_LABELS).unwrap_or(0)
    }

    /// Adds a sample. `key` is the number of whose it is, then those of the places, outermost first.
    pub fn add(&mut self, key: &[u32], period: u64) {
        let sample = Sum { samples: 1, period };
        if let Some(sum) = self.sums.get_mut(key) {
            sum.add(sample);
            return;
        }
        if self.frames + key.len() > FULL {
            self.lost += 1;
            return;
        }
        self.frames += key.len();
        self.sums.insert(key.into(), sample);
        if self.frames > CROWDED && !self.without_cpu {
            self.give_up_cpu();
        }
    }

    /// Merges stacks that differ in their CPU only.
    fn give_up_cpu(&mut self) {
        self.without_cpu = true;
        let who = std::mem::take(&mut self.who);
        let new: Vec<u32> = who.items.iter().map(|who| self.who(who)).collect();
        let mut merged: HashMap<Box<[u32]>, Sum, FxBuildHasher> = HashMap::default();
        for (mut key, sum) in std::mem::take(&mut self.sums) {
            key[0] = new[key[0] as usize];
            merged.entry(key).or_default().add(sum);
        }
        self.frames = merged.keys().map(|key| key.len()).sum();
        self.sums = merged;
    }

    /// The places by their number.
    pub fn places(&self) -> &[Place] {
        &self.places.items
    }

    /// Labels by the number of whose a stack is.
    pub fn labels(&self) -> Vec<Labels> {
        let labels = |(number, who): (usize, &Who)| Labels {
            comm: who.comm.clone(),
            pid: (number > 0).then_some(who.pid),
            cpu: who.cpu,
            ..Labels::default()
        };
        self.who.items.iter().enumerate().map(labels).collect()
    }

    /// The stacks, each with whose it is and its places, outermost first.
    pub fn into_sums(self) -> impl Iterator<Item = (u32, Box<[u32]>, Sum)> {
        let mut sums: Vec<(Box<[u32]>, Sum)> = self.sums.into_iter().collect();
        // Numbers go by first appearance, so that the same file always gives the same profile.
        sums.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        sums.into_iter().filter_map(|(key, sum)| Some((*key.first()?, key[1..].into(), sum)))
    }
}

impl Sum {
    fn add(&mut self, other: Sum) {
        self.samples = self.samples.saturating_add(other.samples);
        self.period = self.period.saturating_add(other.period);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(address: u64) -> Place {
        Place { code: Code::Kernel, address, exact: true }
    }

    #[test]
    fn equal_stacks_add_up() {
        let mut stacks = Stacks::default();
        let who = stacks.who(&Who { comm: Some("fio".into()), pid: 0, cpu: Some(3) });
        let (a, b) = (stacks.place(place(1)).unwrap(), stacks.place(place(2)).unwrap());
        for key in [[who, a, b], [who, b, a], [who, a, b]] {
            stacks.add(&key, 10);
        }
        let labels = stacks.labels();
        assert_eq!((labels[who as usize].pid, labels[who as usize].cpu), (Some(0), Some(3)));
        let sums: Vec<_> = stacks.into_sums().collect();
        assert_eq!(sums[0], (who, [a, b].into(), Sum { samples: 2, period: 20 }));
        assert_eq!(sums[1], (who, [b, a].into(), Sum { samples: 1, period: 10 }));
    }

    #[test]
    fn in_a_crowd_the_cpu_goes_first_and_then_stacks_are_lost() {
        let mut stacks = Stacks::default();
        let frame = stacks.place(place(1)).unwrap();
        let mut key = vec![frame; 4096];
        let mut samples = 0;
        for round in 0..(FULL / 4096 + 200) as u32 {
            key[1] = round;
            for cpu in [0, 1] {
                key[0] = stacks.who(&Who { comm: None, pid: 7, cpu: Some(cpu) });
                stacks.add(&key, 1);
                samples += 1;
            }
        }
        assert!(stacks.without_cpu && stacks.frames <= FULL);
        assert!(stacks.lost >= 100, "{}", stacks.lost);
        let lost = stacks.lost;
        assert_eq!(stacks.into_sums().map(|(_, _, sum)| sum.samples).sum::<u64>() + lost, samples);
    }
}
