//! Structures that were read before: members are asked for again and again.

use rustc_hash::FxHashMap;

use super::{Record, TypeId};

/// Members of structures that are remembered, altogether.
const REMEMBERED: usize = 1 << 20;
/// Structures that were asked for.
#[derive(Default)]
pub(super) struct Remembered {
    records: FxHashMap<TypeId, Record>,
    fields: usize,
}

impl Remembered {
    pub(super) fn get(&self, id: TypeId) -> Option<Record> {
        self.records.get(&id).cloned()
    }

    pub(super) fn insert(&mut self, id: TypeId, record: &Record) {
        self.fields += record.fields.len() + 1;
        if self.fields > REMEMBERED {
            self.records.clear();
            self.fields = record.fields.len() + 1;
        }
        self.records.insert(id, record.clone());
    }
}
