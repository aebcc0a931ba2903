//! The bytes of functions: of the running kernel by reading its memory, of user programs from their files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;

use object::read::{ReadCache, SymbolTable};
use object::{
    Object as _, ObjectSection as _, ObjectSegment as _, ObjectSymbol as _, ObjectSymbolTable as _,
    SymbolIndex, SymbolKind,
};

use super::disasm::Code;
use crate::kernel::kallsyms::TextSymbols;
use crate::kernel::memory::KernelMemory;
use crate::profile::{Frame, FunctionText, Kind, Session};
use crate::symbolize::{Object, Processes};

/// Most bytes of a function; the kernel's longest has some 20 KiB.
pub const MAX_FUNCTION: u64 = 64 << 10;
/// Most bytes of a user program's file that is read.
const MAX_BINARY: u64 = 512 << 20;
/// Pages are read by themselves where the whole cannot be read.
const PAGE: u64 = 4096;

/// A function whose code was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The code.
    pub text: FunctionText,
    /// Its symbol as the linker has it: for C++ and Rust, not the name that is shown.
    pub symbol: String,
    /// The program or library, for user functions: its index in [`Processes::binaries`].
    pub binary: Option<usize>,
    /// Samples by offset from the start.
    pub samples: BTreeMap<u32, u64>,
}

/// The code of kernel functions. Those that cannot be read are left out.
pub fn of_kernel(session: &Session, functions: &[&Frame], memory: &dyn KernelMemory) -> Vec<Found> {
    if functions.is_empty() {
        return Vec::new();
    }
    let symbols = TextSymbols::read();
    let mut found = Vec::new();
    for function in functions {
        let samples = super::samples::samples_by_address(session, function);
        // One name may stand for several functions: the one with most samples.
        let mut places: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        for (address, count) in &samples {
            if let Some(range) = symbols.range_of(*address) {
                *places.entry(range).or_default() += count;
            }
        }
        let Some(((start, end), _)) = places.into_iter().max_by_key(|place| place.1) else { continue };
        let mut bytes = read(memory, start, (end - start).min(MAX_FUNCTION));
        let code = Code::new(start, &bytes, |_| None);
        bytes.truncate(code.size() as usize);
        if bytes.is_empty() {
            continue;
        }
        let targets = targets(&code, |address| symbols.name_at(address).map(str::to_owned));
        let inside = samples.range(start..end).map(|(address, count)| ((address - start) as u32, *count));
        found.push(Found {
            symbol: function.name.to_string(),
            binary: None,
            samples: inside.collect(),
            text: text_of(function, start, bytes, targets),
        });
    }
    found
}

/// What can be read of `length` bytes at `start`.
fn read(memory: &dyn KernelMemory, start: u64, length: u64) -> Vec<u8> {
    let mut bytes = vec![0; length as usize];
    if memory.read(start, &mut bytes) {
        return bytes;
    }
    let mut done = 0;
    while done < length {
        let part = (PAGE - (start + done) % PAGE).min(length - done);
        if !memory.read(start + done, &mut bytes[done as usize..(done + part) as usize]) {
            break;
        }
        done += part;
    }
    bytes.truncate(done as usize);
    bytes
}

fn text_of(function: &Frame, start: u64, bytes: Vec<u8>, targets: Vec<(u64, String)>) -> FunctionText {
    FunctionText {
        name: function.name.to_string(),
        module: function.module.as_deref().map(str::to_owned),
        origin: function.origin,
        start,
        bytes,
        targets,
    }
}

/// The functions that the code calls or jumps to.
fn targets(code: &Code, name: impl Fn(u64) -> Option<String>) -> Vec<(u64, String)> {
    let addresses: BTreeSet<u64> = code.leaves_to().collect();
    addresses.into_iter().filter_map(|address| Some((address, name(address)?))).collect()
}

/// Where the code of user functions lies: samples by binary and offset in its file, by function.
type InFile<'s> = BTreeMap<usize, Vec<(&'s Frame, BTreeMap<u64, u64>)>>;

/// The code of user functions, from the files that were mapped. Those whose file or symbol is gone are left out.
pub fn of_programs(session: &Session, functions: &[&Frame], processes: &Processes) -> Vec<Found> {
    let mut in_file: InFile<'_> = BTreeMap::new();
    for function in functions {
        for (binary, samples) in places_in_files(session, function, processes) {
            in_file.entry(binary).or_default().push((function, samples));
        }
    }
    let mut found: Vec<Found> = Vec::new();
    for (binary, wanted) in in_file {
        let Some(file) = open(processes, binary) else { continue };
        let cache = ReadCache::new(file);
        // An object file that cannot be parsed has no code to show.
        let Ok(file) = object::File::parse(&cache) else { continue };
        if file.architecture() != object::Architecture::X86_64 {
            continue;
        }
        let Some(symbols) = Symbols::read(&file) else { continue };
        found.extend(wanted.into_iter().filter_map(|(function, samples)| {
            let mut found = of_program(&file, &symbols, function, &samples)?;
            found.binary = Some(binary);
            Some(found)
        }));
    }
    // A function that several files have under one name: the one with most samples.
    found.sort_by_key(|found| std::cmp::Reverse(found.samples.values().sum::<u64>()));
    let mut seen = BTreeSet::new();
    found.retain(|found| seen.insert((found.text.name.clone(), found.text.module.clone())));
    found
}

/// Samples of a function by the file, and the offset in it, that their addresses are mapped from.
fn places_in_files(
    session: &Session,
    function: &Frame,
    processes: &Processes,
) -> BTreeMap<usize, BTreeMap<u64, u64>> {
    let profile = &session.profile;
    let mut places: BTreeMap<usize, BTreeMap<u64, u64>> = BTreeMap::new();
    for stack in profile.of_kind(Kind::Cpu) {
        let Some(innermost) = stack.frames.last().map(|location| profile.location(*location)) else {
            continue;
        };
        if profile.frame(innermost.frame) != function {
            continue;
        }
        let Some(pid) = profile.labels(stack.labels).pid else { continue };
        let Some(mapping) = processes.find(pid, innermost.address) else { continue };
        if let Object::Binary(binary) = mapping.object {
            let offset = innermost.address - mapping.start + mapping.offset;
            *places.entry(binary).or_default().entry(offset).or_default() += stack.weight;
        }
    }
    places
}

/// A mapped file.
fn open(processes: &Processes, binary: usize) -> Option<File> {
    let binary = processes.binaries().get(binary)?;
    let file = match &binary.file {
        Some(file) => file.try_clone().ok()?,
        None => File::open(&binary.path).ok()?,
    };
    let metadata = file.metadata().ok()?;
    (metadata.is_file() && metadata.len() <= MAX_BINARY).then_some(file)
}

/// Functions of a file, by address.
struct Symbols<'f, R: object::ReadRef<'f>> {
    table: SymbolTable<'f, 'f, R>,
    /// Address, size, number in the table; sorted. Names are read when asked for: there may be a hundred thousand.
    functions: Vec<(u64, u64, SymbolIndex)>,
}

impl<'f, R: object::ReadRef<'f>> Symbols<'f, R> {
    /// Those of the symbol table, or, in stripped files, those that other files may use.
    fn read(file: &'f object::File<'f, R>) -> Option<Self> {
        let table = file.symbol_table().or_else(|| file.dynamic_symbol_table())?;
        let mut functions: Vec<(u64, u64, SymbolIndex)> = table
            .symbols()
            .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0)
            .map(|symbol| (symbol.address(), symbol.size(), symbol.index()))
            .collect();
        functions.sort_unstable_by_key(|function| (function.0, function.1, function.2.0));
        Some(Self { table, functions })
    }

    /// The function that holds `address`.
    fn holding(&self, address: u64) -> Option<(u64, u64, SymbolIndex)> {
        let after = self.functions.partition_point(|function| function.0 <= address);
        let found = *self.functions.get(after.checked_sub(1)?)?;
        (address - found.0 < found.1).then_some(found)
    }

    /// The name of the function that begins at `address`.
    fn name_at(&self, address: u64) -> Option<String> {
        let first = self.functions.partition_point(|function| function.0 < address);
        let found = self.functions.get(first).filter(|function| function.0 == address)?;
        self.name(found.2)
    }

    fn name(&self, index: SymbolIndex) -> Option<String> {
        let symbol = self.table.symbol_by_index(index).ok()?;
        symbol.name().ok().filter(|name| !name.is_empty()).map(str::to_owned)
    }
}

fn of_program<'f, R: object::ReadRef<'f>>(
    file: &'f object::File<'f, R>,
    symbols: &Symbols<'f, R>,
    function: &Frame,
    samples: &BTreeMap<u64, u64>,
) -> Option<Found> {
    let (hottest, _) = samples.iter().max_by_key(|(_, count)| **count)?;
    let address_of = |offset: u64| {
        file.segments().find_map(|segment| {
            let (start, size) = segment.file_range();
            let inside = offset.checked_sub(start).filter(|inside| *inside < size)?;
            segment.address().checked_add(inside)
        })
    };
    let (start, size, symbol) = symbols.holding(address_of(*hottest)?)?;
    let size = size.min(MAX_FUNCTION);
    let bytes = file.sections().find_map(|section| section.data_range(start, size).ok().flatten())?.to_vec();
    let code = Code::new(start, &bytes, |_| None);
    let targets = targets(&code, |address| symbols.name_at(address));
    let mut inside: BTreeMap<u32, u64> = BTreeMap::new();
    for (offset, count) in samples {
        let Some(at) = address_of(*offset).and_then(|address| address.checked_sub(start)) else { continue };
        if at < size {
            *inside.entry(at as u32).or_default() += count;
        }
    }
    Some(Found {
        symbol: symbols.name(symbol)?,
        binary: None,
        samples: inside,
        text: text_of(function, start, bytes, targets),
    })
}
