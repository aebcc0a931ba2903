//! Brings records into the order of time.
//!
//! perf writes what the buffer of one CPU holds, then that of the next, and a `FINISHED_ROUND` record
//! after all of them: what comes after the next such record is younger than everything before this one.
//! So two rounds must be held at most (the same is in tools/perf/util/ordered-events.c).

use super::bytes::Bytes;
use super::records::Record;

/// Bytes held at most, for files whose rounds never end. Then the older half is let go, be it in order
/// or not. Buffers of perf's take half a MiB a CPU.
const MAX_HELD: usize = 48 << 20;

/// Records held back until their turn.
#[derive(Debug, Default)]
pub struct Rounds {
    data: Vec<u8>,
    held: Vec<Held>,
    /// The youngest seen.
    newest: u64,
    /// The youngest that there was when the last round ended.
    due: u64,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    time: u64,
    start: usize,
    end: usize,
    kind: u32,
    misc: u16,
}

impl Rounds {
    /// Takes a record; `each` gets those whose turn comes because there is no room.
    pub fn push(&mut self, time: u64, record: Record<'_>, each: &mut dyn FnMut(u64, Record<'_>)) {
        let start = self.data.len();
        self.data.extend_from_slice(record.body.rest());
        self.held.push(Held { time, start, end: self.data.len(), kind: record.kind, misc: record.misc });
        self.newest = self.newest.max(time);
        if self.data.len() + self.held.len() * size_of::<Held>() > MAX_HELD {
            self.held.sort_by_key(|held| held.time);
            let until = self.held[self.held.len() / 2].time;
            self.release(until, record.body.is_big_endian(), each);
        }
    }

    /// A round has ended: `each` gets what nothing younger can precede any more.
    pub fn finish_round(&mut self, big_endian: bool, each: &mut dyn FnMut(u64, Record<'_>)) {
        self.release(self.due, big_endian, each);
        self.due = self.newest;
    }

    /// `each` gets all that is left.
    pub fn finish(&mut self, big_endian: bool, each: &mut dyn FnMut(u64, Record<'_>)) {
        self.release(u64::MAX, big_endian, each);
    }

    fn release(&mut self, until: u64, big_endian: bool, each: &mut dyn FnMut(u64, Record<'_>)) {
        // Stable: records of the same time stay as they were.
        self.held.sort_by_key(|held| held.time);
        let count = self.held.partition_point(|held| held.time <= until);
        if count == 0 {
            return;
        }
        for held in &self.held[..count] {
            let body = Bytes::new(&self.data[held.start..held.end], big_endian);
            each(held.time, Record { kind: held.kind, misc: held.misc, body });
        }
        let mut left = Vec::new();
        self.held.drain(..count);
        for held in &mut self.held {
            let start = left.len();
            left.extend_from_slice(&self.data[held.start..held.end]);
            (held.start, held.end) = (start, left.len());
        }
        self.data = left;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(body: &[u8]) -> Record<'_> {
        Record { kind: 9, misc: 0, body: Bytes::new(body, false) }
    }

    #[test]
    fn rounds_come_in_order() {
        let mut rounds = Rounds::default();
        let mut seen = Vec::new();
        let mut each = |time: u64, record: Record<'_>| seen.push((time, record.body.rest()[0]));
        for (time, body) in [(5, 1), (7, 2), (6, 3), (6, 4)] {
            rounds.push(time, record(&[body]), &mut each);
        }
        rounds.finish_round(false, &mut each);
        for (time, body) in [(8, 5), (7, 6), (9, 7)] {
            rounds.push(time, record(&[body]), &mut each);
        }
        rounds.finish_round(false, &mut each);
        rounds.push(8, record(&[8]), &mut each);
        rounds.finish(false, &mut each);
        assert_eq!(seen, [(5, 1), (6, 3), (6, 4), (7, 2), (7, 6), (8, 5), (8, 8), (9, 7)]);
    }

    #[test]
    fn what_never_ends_is_held_within_bounds() {
        let mut rounds = Rounds::default();
        let (mut seen, mut most) = (0, 0);
        let body = vec![0; 60_000];
        for time in 0..3000 {
            rounds.push(time, record(&body), &mut |_, _| seen += 1);
            most = most.max(rounds.data.len());
        }
        rounds.finish(false, &mut |_, _| seen += 1);
        assert_eq!(seen, 3000);
        assert!(most <= MAX_HELD + body.len(), "{most}");
    }
}
