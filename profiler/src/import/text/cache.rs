//! Remembers which frame a piece of text stood for.

use std::hash::Hasher as _;

use hashbrown::HashTable;
use rustc_hash::FxHasher;

use crate::profile::LocationId;

/// The frames of lines that were seen before.
#[derive(Default)]
pub(super) struct FrameCache {
    table: HashTable<Cached>,
    texts: Vec<u8>,
}

struct Cached {
    hash: u64,
    start: u32,
    length: u32,
    kernel: bool,
    id: LocationId,
}

impl FrameCache {
    /// Bytes of lines; when there are more, it begins anew.
    const MAX_TEXTS: usize = 64 << 20;

    fn hash(text: &[u8], kernel: bool) -> u64 {
        let mut hasher = FxHasher::default();
        hasher.write(text);
        hasher.write_u8(kernel.into());
        hasher.finish()
    }

    /// The frame of a text. `kernel`: what else than the text decides on it.
    pub fn get(&self, text: &[u8], kernel: bool) -> Option<LocationId> {
        let hash = Self::hash(text, kernel);
        let same = |known: &Cached| {
            known.hash == hash
                && known.kernel == kernel
                && self.texts[known.start as usize..][..known.length as usize] == *text
        };
        self.table.find(hash, same).map(|known| known.id)
    }

    /// Remembers the frame of a text that is not in it.
    pub fn insert(&mut self, text: &[u8], kernel: bool, id: LocationId) {
        if self.texts.len() + text.len() > Self::MAX_TEXTS {
            self.table.clear();
            self.texts.clear();
        }
        let (hash, start) = (Self::hash(text, kernel), self.texts.len() as u32);
        self.texts.extend_from_slice(text);
        let cached = Cached { hash, start, length: text.len() as u32, kernel, id };
        self.table.insert_unique(hash, cached, |known| known.hash);
    }
}
