//! Records as they are in the file, for those who read whole types: [`crate::types`].

use super::{Btf, Record, hash, u32_at};

impl Btf {
    /// The record of a type.
    pub(crate) fn type_record(&self, id: u32) -> Option<Record> {
        self.record(id)
    }

    /// Ids of this part's own types, without those of what it is based on.
    pub(crate) fn own_ids(&self) -> std::ops::Range<u32> {
        self.first_id()..self.first_id() + self.types.len() as u32
    }

    /// Ids of this part's own types with this name and one of these kinds, in the order of the file.
    pub(crate) fn own_named(&self, name: &str, kinds: &[u32]) -> Vec<u32> {
        let hash = hash(name.as_bytes());
        let start = self.names.partition_point(|(known, _)| *known < hash);
        let same = self.names[start..].iter().take_while(|(known, _)| *known == hash);
        same.map(|(_, index)| self.first_id() + index)
            .filter(|id| {
                self.record(*id).is_some_and(|record| {
                    kinds.contains(&record.kind) && self.string(record.name) == Some(name.as_bytes())
                })
            })
            .collect()
    }

    /// Name of a type; `None` if it has none.
    pub(crate) fn type_name(&self, id: u32) -> Option<String> {
        let (btf, record) = self.resolve(id)?;
        btf.text(record.name)
    }

    /// The string at an offset; `None` if it is empty.
    pub(crate) fn text(&self, offset: u32) -> Option<String> {
        let bytes = self.string(offset).filter(|bytes| !bytes.is_empty())?;
        Some(String::from_utf8_lossy(bytes).into_owned())
    }

    /// What follows the record of a type: so many words, in groups of `N` (members have three, parameters two).
    pub(crate) fn words<const N: usize>(&self, id: u32, groups: u32) -> Option<Vec<[u32; N]>> {
        let (btf, record) = self.resolve(id)?;
        let word =
            |group: u32, index: usize| u32_at(&btf.data, record.tail + (group as usize * N + index) * 4);
        (0..groups)
            .map(|group| {
                let mut words = [0; N];
                for (index, place) in words.iter_mut().enumerate() {
                    *place = word(group, index)?;
                }
                Some(words)
            })
            .collect()
    }
}
