//! Names of the recorded kernel's addresses.
//!
//! A perf.data file has addresses only. They have names where the symbols of the very same kernel are at
//! hand: those that were given, those of the running kernel, or those that perf keeps in ~/.debug. Kernels
//! are loaded elsewhere at each boot, so addresses are moved by what a symbol of known place moved by.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::bytes::{Bytes, string};
use super::sample::Mapped;
use crate::profile::{Frame, Host, Origin};
use crate::symbolize::{KernelSymbols, lookup_address};

/// Where the running kernel's symbols are.
const KALLSYMS: &str = "/proc/kallsyms";
/// The name under which perf knows the kernel.
const KERNEL: &str = "[kernel.kallsyms]";
/// Most modules and generated functions that are remembered.
const MAX_RANGES: usize = 1 << 18;

/// What the records tell of the kernel's code.
#[derive(Debug, Default)]
pub struct KernelCode {
    /// A symbol and where it was.
    reference: Option<(String, u64)>,
    modules: Vec<Range>,
    /// Functions that were generated at run time: eBPF programs and trampolines.
    generated: Vec<Range>,
}

#[derive(Clone, Debug)]
struct Range {
    start: u64,
    end: u64,
    name: Arc<str>,
}

impl KernelCode {
    /// A mapping of process `u32::MAX`: the kernel or a module.
    pub fn mapped(&mut self, mapped: &Mapped<'_>) {
        let path = string(mapped.path);
        if let Some(symbol) = path.strip_prefix(KERNEL) {
            // perf appends the symbol by which the kernel's place is known.
            if mapped.offset != 0 && !symbol.is_empty() {
                self.reference = Some((symbol.to_owned(), mapped.offset));
            }
            return;
        }
        if self.modules.len() < MAX_RANGES
            && let Some(name) = module_name(&path)
        {
            let end = mapped.start.saturating_add(mapped.length);
            self.modules.push(Range { start: mapped.start, end, name: name.into() });
        }
    }

    /// `PERF_RECORD_KSYMBOL`.
    pub fn generated(&mut self, mut body: Bytes<'_>) -> Option<()> {
        let (start, length) = (body.u64()?, body.u32()?);
        let _kind_and_flags = (body.u16()?, body.u16()?);
        if self.generated.len() < MAX_RANGES && length > 0 {
            let end = start.saturating_add(u64::from(length));
            self.generated.push(Range { start, end, name: string(body.text()).into() });
        }
        Some(())
    }
}

/// `xfs` of `/lib/modules/6.12/kernel/fs/xfs/xfs.ko.xz` and of `[xfs]`.
fn module_name(path: &str) -> Option<String> {
    let name = path.rsplit('/').next()?;
    let name = match name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
        Some(name) => name,
        None => name.split_once(".ko").map(|(name, _)| name)?,
    };
    // In file names both are used; modules are called with the underscore.
    Some(name.replace('-', "_"))
}

/// Where symbols of the recorded kernel are to be found.
#[derive(Debug, PartialEq, Eq)]
enum Source {
    /// In the running kernel, which is the one that was recorded.
    Running,
    /// In a file.
    File(PathBuf),
    /// Nowhere; why.
    Nowhere(String),
}

/// Gives kernel addresses names.
pub struct KernelNames {
    modules: Vec<Range>,
    generated: Vec<Range>,
    symbols: Option<KernelSymbols>,
    /// What the kernel moved by since.
    shift: u64,
    /// What modules moved by, if they did.
    module_shifts: HashMap<Arc<str>, Option<u64>>,
    /// Why addresses have no names.
    pub missing: Option<String>,
}

impl KernelNames {
    /// For a recording on `host` with a kernel of this build id. `kallsyms` is a copy of the file of that
    /// name from the recorded machine.
    pub fn new(code: KernelCode, host: &Host, build_id: Option<&[u8]>, kallsyms: Option<&Path>) -> Self {
        let KernelCode { reference, mut modules, mut generated } = code;
        modules.sort_by_key(|range| range.start);
        generated.sort_by_key(|range| range.start);
        let mut names = Self {
            modules,
            generated,
            symbols: None,
            shift: 0,
            module_shifts: HashMap::new(),
            missing: None,
        };
        let source = source(host, build_id, kallsyms);
        let (path, symbols) = match &source {
            Source::Running => (Path::new(KALLSYMS), KernelSymbols::new()),
            Source::File(path) => (path.as_path(), KernelSymbols::from_file(path)),
            Source::Nowhere(why) => {
                names.missing = Some(why.clone());
                return names;
            }
        };
        let moved = reference.as_ref().map(|(symbol, was)| (address_of(path, symbol), *was));
        match moved {
            Some((Some(is), was)) if is != 0 => names.shift = is.wrapping_sub(was),
            // Given symbols are believed.
            _ if matches!(source, Source::File(_)) && kallsyms.is_some() => {}
            Some(_) => {
                names.missing = Some(format!(
                    "{} hides addresses: run as root (kernel.kptr_restrict), or give the symbols with --kallsyms",
                    path.display()
                ));
                return names;
            }
            None => {
                names.missing = Some("the recording does not say where the kernel was loaded".to_owned());
                return names;
            }
        }
        if names.shift != 0 && source == Source::Running {
            for module in &names.modules {
                let moved = symbols.module_start(&module.name).map(|start| start.wrapping_sub(module.start));
                names.module_shifts.insert(module.name.clone(), moved);
            }
        }
        names.symbols = Some(symbols);
        names
    }

    /// The functions at these addresses, each with whether execution was there, or is to return there.
    pub fn resolve(&mut self, places: &[(u64, bool)]) -> Vec<Frame> {
        let looked_up: Vec<Option<u64>> =
            places.iter().map(|(address, exact)| self.today(lookup_address(*address, *exact))).collect();
        if let Some(symbols) = &mut self.symbols {
            let known: Vec<u64> = looked_up.iter().copied().flatten().collect();
            symbols.resolve(&known);
        }
        let frames = places.iter().zip(looked_up);
        frames.map(|((address, exact), today)| self.frame(*address, *exact, today)).collect()
    }

    /// Where the code of a recorded address is now.
    fn today(&self, address: u64) -> Option<u64> {
        match find(&self.modules, address) {
            Some(module) if self.shift != 0 => {
                let shift = self.module_shifts.get(&module.name).copied().flatten()?;
                Some(address.wrapping_add(shift))
            }
            Some(_) => Some(address),
            None => Some(address.wrapping_add(self.shift)),
        }
    }

    fn frame(&self, address: u64, exact: bool, today: Option<u64>) -> Frame {
        let recorded = lookup_address(address, exact);
        let module = find(&self.modules, recorded).map(|range| range.name.clone());
        let unknown = || Frame {
            name: format!("{address:#018x}").into(),
            module: module.clone(),
            origin: Origin::Kernel,
        };
        if let Some(range) = find(&self.generated, recorded) {
            return Frame { name: range.name.clone(), module: None, origin: Origin::Kernel };
        }
        let (Some(symbols), Some(today)) = (&self.symbols, today) else { return unknown() };
        match symbols.name(today) {
            Some(name) => Frame { name, module, origin: Origin::Kernel },
            None => unknown(),
        }
    }
}

fn find(ranges: &[Range], address: u64) -> Option<&Range> {
    let range = &ranges[ranges.partition_point(|range| range.start <= address).checked_sub(1)?];
    (address < range.end).then_some(range)
}

fn source(host: &Host, build_id: Option<&[u8]>, kallsyms: Option<&Path>) -> Source {
    if let Some(path) = kallsyms {
        return Source::File(path.to_owned());
    }
    let release =
        |name: &str| std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
    let is_running = match build_id {
        Some(id) => running_build_id().is_some_and(|running| running == id),
        None => {
            !host.kernel.is_empty()
                && host.kernel == release("osrelease").trim()
                && host.hostname == release("hostname").trim()
        }
    };
    if is_running {
        return Source::Running;
    }
    if let Some(path) = build_id.and_then(cached).filter(|path| path.is_file()) {
        return Source::File(path);
    }
    let kernel = if host.kernel.is_empty() {
        "an unknown kernel".to_owned()
    } else {
        format!("kernel {}", host.kernel)
    };
    Source::Nowhere(format!(
        "it was recorded on {kernel}, which is not the running one: give its symbols, a copy of that machine's \
         /proc/kallsyms, with --kallsyms"
    ))
}

/// Where `perf record` keeps the symbols of kernels that it has recorded.
fn cached(build_id: &[u8]) -> Option<PathBuf> {
    let hex: String = build_id.iter().map(|byte| format!("{byte:02x}")).collect();
    let home = PathBuf::from(std::env::var_os("HOME")?);
    Some(home.join(".debug").join(KERNEL).join(hex).join("kallsyms"))
}

/// The build id of the running kernel, from its ELF notes.
fn running_build_id() -> Option<Vec<u8>> {
    let mut notes = Vec::new();
    std::fs::File::open("/sys/kernel/notes").ok()?.take(1 << 16).read_to_end(&mut notes).ok()?;
    build_id_note(Bytes::new(&notes, cfg!(target_endian = "big")))
}

/// The note of type `NT_GNU_BUILD_ID` (3) and name `GNU`; each is padded to 4 bytes.
fn build_id_note(mut notes: Bytes<'_>) -> Option<Vec<u8>> {
    loop {
        let (name_size, size, kind) = (notes.u32()?, notes.u32()?, notes.u32()?);
        let padded = |size: u32| usize::try_from(size).ok()?.checked_next_multiple_of(4);
        let name = notes.take(padded(name_size)?)?;
        let data = notes.take(padded(size)?)?;
        if kind == 3 && name == b"GNU\0" {
            return data.get(..size as usize).map(<[u8]>::to_vec);
        }
    }
}

/// The address of a symbol in a file with the form of /proc/kallsyms.
fn address_of(path: &Path, symbol: &str) -> Option<u64> {
    let file = std::fs::File::open(path).ok()?;
    for line in BufReader::new(file.take(1 << 28)).split(b'\n') {
        let line = line.ok()?;
        let Ok(line) = std::str::from_utf8(&line) else { continue };
        let mut fields = line.split_ascii_whitespace();
        let address = fields.next();
        if fields.nth(1) == Some(symbol) {
            return u64::from_str_radix(address?, 16).ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn mapped<'d>(path: &'d str, start: u64, offset: u64) -> Mapped<'d> {
        Mapped { pid: u32::MAX, start, length: 0x1000, offset, path: path.as_bytes(), ..Mapped::default() }
    }

    #[test]
    fn modules_by_their_files() {
        for (path, name) in [
            ("/lib/modules/6.12/kernel/fs/xfs/xfs.ko.xz", Some("xfs")),
            ("/lib/modules/6.12/kernel/drivers/md/dm-mod.ko", Some("dm_mod")),
            ("[nf_nat]", Some("nf_nat")),
            ("/usr/lib/libc.so.6", None),
        ] {
            assert_eq!(module_name(path).as_deref(), name, "{path}");
        }
    }

    #[test]
    fn a_kernel_that_was_loaded_elsewhere() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let kallsyms =
            "ffffffffa0000000 T _text\nffffffffa0000100 T vfs_read\nffffffffa0000200 T vfs_write\n";
        file.write_all(kallsyms.as_bytes()).unwrap();
        let mut code = KernelCode::default();
        code.mapped(&mapped("[kernel.kallsyms]_text", 0xffff_ffff_8000_0000, 0xffff_ffff_8000_0000));
        code.mapped(&mapped("/lib/xfs.ko", 0xffff_ffff_c000_0000, 0));
        let ksymbol =
            [&0xffff_ffff_c100_0000u64.to_le_bytes()[..], &[64, 0, 0, 0, 1, 0, 0, 0], b"bpf_prog_1\0"]
                .concat();
        code.generated(Bytes::new(&ksymbol, false)).unwrap();
        let mut names = KernelNames::new(code, &Host::default(), None, Some(file.path()));
        assert_eq!((names.shift, &names.missing), (0x2000_0000, &None));
        let frames = names.resolve(&[
            (0xffff_ffff_8000_0110, true),
            // A call at the end of vfs_read returns behind it.
            (0xffff_ffff_8000_0200, false),
            (0xffff_ffff_c000_0010, true),
            (0xffff_ffff_c100_0010, true),
        ]);
        let frames: Vec<String> = frames.iter().map(|frame| frame.qualified().into_owned()).collect();
        assert_eq!(frames, ["vfs_read", "vfs_read", "0xffffffffc0000010 [xfs]", "bpf_prog_1"]);
    }

    #[test]
    fn another_machines_addresses_stay_addresses() {
        let host = Host { kernel: "1.2.3".to_owned(), ..Host::default() };
        let mut names = KernelNames::new(KernelCode::default(), &host, Some(&[1; 20]), None);
        assert!(names.missing.as_ref().unwrap().contains("kernel 1.2.3"), "{:?}", names.missing);
        assert_eq!(&*names.resolve(&[(0xffff_ffff_8000_0110, true)])[0].name, "0xffffffff80000110");
    }

    #[test]
    fn notes_of_the_kernel() {
        let notes = [
            &[4, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0][..],
            b"Xen\0abcd",
            &[4, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0],
            b"GNU\0xyz_",
        ]
        .concat();
        assert_eq!(build_id_note(Bytes::new(&notes, false)), Some(b"xyz".to_vec()));
        assert_eq!(build_id_note(Bytes::new(&notes[..30], false)), None);
    }
}
