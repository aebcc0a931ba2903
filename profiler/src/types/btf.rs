//! Types of the kernel and its modules, or of a file, from BTF.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::remembered::Remembered;
use super::{
    Field, MAX_DEPTH, Parameter, Prototype, Qualifier, Record, RecordKind, Type, TypeId, TypeSource,
    TypesError, Variable, file, variant_of,
};
use crate::kernel::btf::{
    Btf, KIND_ARRAY, KIND_CONST, KIND_DATASEC, KIND_ENUM, KIND_ENUM64, KIND_FUNC, KIND_FUNC_PROTO,
    KIND_RESTRICT, KIND_STRUCT, KIND_TYPE_TAG, KIND_TYPEDEF, KIND_UNION, KIND_VAR, KIND_VOLATILE,
};

const KIND_INT: u32 = 1;
const KIND_PTR: u32 = 2;
const KIND_FWD: u32 = 7;
const KIND_FLOAT: u32 = 16;

/// Where the running kernel shows its types.
const KERNEL: &str = "/sys/kernel/btf";
/// BTF does not say how long pointers are: as long as this machine's.
const POINTER: u64 = size_of::<usize>() as u64;
/// The section of per-CPU variables.
const PER_CPU: &str = ".data..percpu";

/// Types from BTF: those of a kernel, with those of its modules on top.
///
/// A type's id has the number of its part (0: the kernel, then modules as they were loaded) in its upper half.
pub struct BtfTypes {
    base: Arc<Btf>,
    modules: RefCell<Modules>,
    records: RefCell<Remembered>,
}

#[derive(Default)]
struct Modules {
    loaded: Vec<(String, Arc<Btf>)>,
    /// Those that the running kernel has, and that were not needed yet.
    others: Vec<String>,
}

impl BtfTypes {
    /// Those of the running kernel. Modules are read when a name is in nothing that was read before.
    ///
    /// # Errors
    ///
    /// If the kernel has no BTF, or it is damaged.
    pub fn running() -> Result<Self, TypesError> {
        let entries = std::fs::read_dir(KERNEL).into_iter().flatten().flatten();
        let mut others: Vec<String> = entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| name != "vmlinux")
            .collect();
        others.sort_unstable();
        let types = Self::from_btf(Btf::vmlinux()?);
        types.modules.borrow_mut().others = others;
        Ok(types)
    }

    /// Those of a file: BTF as it is, or an ELF file with a section `.BTF`, such as vmlinux or a module. A module's refers to
    /// types of its kernel: those that it brings along (`.BTF.base`, Linux 6.11), else the running kernel's.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or has no BTF.
    pub fn from_file(path: &Path) -> Result<Self, TypesError> {
        let error = |why: &dyn std::fmt::Display| TypesError::file(path, why);
        let found = file::btf(path)?;
        let Some(base) = found.base else {
            return Ok(Self::from_btf(Btf::parse(found.btf, None).map_err(|why| error(&why))?));
        };
        let base = match base {
            file::Base::Running => Btf::vmlinux()?,
            file::Base::Own(data) => Btf::parse(data, None).map_err(|why| error(&why))?,
        };
        let types = Self::from_btf(base);
        let module = Btf::parse(found.btf, Some(types.base.clone())).map_err(|why| error(&why))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        types.modules.borrow_mut().loaded.push((name, Arc::new(module)));
        Ok(types)
    }

    /// Those of BTF that has been read.
    pub fn from_btf(btf: Btf) -> Self {
        Self { base: Arc::new(btf), modules: RefCell::default(), records: RefCell::default() }
    }

    /// Reads the types of a module of the running kernel; `-` and `_` are the same in its name. Names are looked up in it
    /// after those of the kernel; [`in_module`](Self::in_module) looks there first.
    ///
    /// # Errors
    ///
    /// If the running kernel has no such module, or its types are damaged.
    pub fn load_module(&self, name: &str) -> Result<(), TypesError> {
        let name = name.replace('-', "_");
        let mut modules = self.modules.borrow_mut();
        if modules.loaded.iter().any(|(loaded, _)| *loaded == name) {
            return Ok(());
        }
        let Some(index) = modules.others.iter().position(|other| other.replace('-', "_") == name) else {
            return Err(TypesError::Module(name));
        };
        // Damaged ones are not tried again.
        let name = modules.others.remove(index);
        let btf = Btf::from_file(&PathBuf::from(KERNEL).join(&name), Some(self.base.clone()))?;
        modules.loaded.push((name, Arc::new(btf)));
        Ok(())
    }

    /// How a function of a module is called. Without a module: of the kernel, else of the first module that has it.
    ///
    /// ```no_run
    /// # use profiler::types::btf::BtfTypes;
    /// let prototype = BtfTypes::running()?.prototype_in(Some("xfs"), "xfs_agino_range");
    /// # Ok::<(), profiler::types::TypesError>(())
    /// ```
    pub fn prototype_in(&self, module: Option<&str>, symbol: &str) -> Option<Prototype> {
        self.in_module(module, symbol, &[KIND_FUNC])
            .and_then(|id| self.prototype_of(id, false))
            .or_else(|| self.prototype_of(self.in_module(module, variant_of(symbol)?, &[KIND_FUNC])?, true))
    }

    /// Structures and unions of a module's own with this name, and the kernel's.
    pub fn named_in(&self, module: &str, name: &str) -> Vec<TypeId> {
        // A module without types of its own is no reason not to look into the kernel.
        let _ = self.load_module(module);
        let part = self.modules.borrow().part(module);
        let parts = part.into_iter().chain([0]);
        parts.flat_map(|part| self.records_named(part, name)).collect()
    }

    /// The first of this name: of the module's own, else of the kernel, else of any module.
    fn in_module(&self, module: Option<&str>, name: &str, kinds: &[u32]) -> Option<TypeId> {
        if let Some(module) = module {
            let _ = self.load_module(module);
            let part = self.modules.borrow().part(module);
            if let Some(id) = part.and_then(|part| self.own_named(part, name, kinds).into_iter().next()) {
                return Some(id);
            }
        }
        self.first(|part| self.own_named(part, name, kinds).into_iter().next())
    }

    /// What `look` finds in the first part that has it. Modules that were not needed before are read on the way.
    fn first<T>(&self, look: impl Fn(usize) -> Option<T>) -> Option<T> {
        let mut part = 0;
        loop {
            while part <= self.modules.borrow().loaded.len() {
                if let Some(found) = look(part) {
                    return Some(found);
                }
                part += 1;
            }
            let next = self.modules.borrow().others.first().cloned()?;
            if let Err(error) = self.load_module(&next) {
                tracing::debug!("types of module {next}: {error}");
            }
        }
    }

    fn part(&self, part: usize) -> Option<Arc<Btf>> {
        match part.checked_sub(1) {
            None => Some(self.base.clone()),
            Some(index) => self.modules.borrow().loaded.get(index).map(|(_, btf)| btf.clone()),
        }
    }

    /// The kernel's types have one id only, through whatever module they are met.
    fn id(&self, part: usize, id: u32) -> TypeId {
        let part = if id < self.base.own_ids().end { 0 } else { part as u64 };
        TypeId(part << 32 | u64::from(id))
    }

    fn own_named(&self, part: usize, name: &str, kinds: &[u32]) -> Vec<TypeId> {
        let ids = self.part(part).map(|btf| btf.own_named(name, kinds)).unwrap_or_default();
        ids.into_iter().map(|id| self.id(part, id)).collect()
    }

    fn records_named(&self, part: usize, name: &str) -> Vec<TypeId> {
        let mut found = self.own_named(part, name, &[KIND_STRUCT, KIND_UNION]);
        for alias in self.own_named(part, name, &[KIND_TYPEDEF]) {
            // Behind the typedef, so that its name is known: structures without a tag have no other.
            let target = self.strip(alias).filter(|id| matches!(self.get(*id), Some(Type::Record(_))));
            if target.is_some_and(|target| !found.contains(&target)) {
                found.push(alias);
            }
        }
        found
    }

    fn prototype_of(&self, function: TypeId, variant: bool) -> Option<Prototype> {
        let (part, id) = split(function);
        let btf = self.part(part)?;
        let name = btf.type_name(id)?;
        let proto = btf.type_record(id)?.size_or_type;
        match self.get(self.id(part, proto))? {
            Type::Function { returns, parameters } => {
                Some(Prototype { function: name, parameters, returns, variant })
            }
            _ => None,
        }
    }

    fn record(&self, part: usize, btf: &Btf, id: u32) -> Option<Record> {
        let key = self.id(part, id);
        if let Some(known) = self.records.borrow().get(key) {
            return Some(known);
        }
        let raw = btf.type_record(id)?;
        let members = btf.words::<3>(id, raw.vlen)?;
        let mut fields = Vec::with_capacity(members.len());
        for [name, ty, offset] in members {
            let (offset, bits) = match raw.flag {
                true => (offset & 0xff_ffff, Some(offset >> 24).filter(|bits| *bits > 0)),
                false => (offset, None),
            };
            let (shift, bits) = match bits {
                None => self.narrow_int(btf, ty),
                Some(bits) => (0, Some(bits)),
            };
            fields.push(Field {
                name: btf.text(name),
                ty: self.id(part, ty),
                offset_bits: u64::from(offset) + u64::from(shift),
                bits: bits.map(u64::from),
            });
        }
        let kind = if raw.kind == KIND_UNION { RecordKind::Union } else { RecordKind::Structure };
        let record = Record {
            kind,
            name: btf.type_name(id),
            size: u64::from(raw.size_or_type),
            align: None,
            fields: fields.into(),
        };
        self.records.borrow_mut().insert(key, &record);
        Some(record)
    }

    /// Bitfields of old encoders (without the kind flag) are integers of less bits than their bytes have: where in
    /// these bytes they begin, and how many bits they are.
    fn narrow_int(&self, btf: &Btf, mut id: u32) -> (u32, Option<u32>) {
        for _ in 0..MAX_DEPTH {
            let Some(raw) = btf.type_record(id) else { break };
            match raw.kind {
                KIND_TYPEDEF | KIND_VOLATILE | KIND_CONST | KIND_RESTRICT | KIND_TYPE_TAG => {
                    id = raw.size_or_type
                }
                KIND_INT => {
                    let word = btf.words::<1>(id, 1).map_or(0, |words| words[0][0]);
                    let (bits, shift) = (word & 0xff, word >> 16 & 0xff);
                    if bits > 0 && bits < raw.size_or_type.saturating_mul(8) {
                        return (shift, Some(bits));
                    }
                    break;
                }
                _ => break,
            }
        }
        (0, None)
    }

    fn parameters(&self, part: usize, btf: &Btf, id: u32, count: u32) -> Option<Vec<Parameter>> {
        let words = btf.words::<2>(id, count)?;
        // A nameless parameter without a type is `...`.
        let real = words.into_iter().filter(|[name, ty]| *name != 0 || *ty != 0);
        Some(real.map(|[name, ty]| Parameter { name: btf.text(name), ty: self.id(part, ty) }).collect())
    }

    fn variable_in(&self, part: usize, name: &str) -> Option<Variable> {
        let btf = self.part(part)?;
        let own = btf.own_named(name, &[KIND_VAR]);
        let id = *own.first()?;
        let ty = self.id(part, btf.type_record(id)?.size_or_type);
        let sections = btf.own_named(PER_CPU, &[KIND_DATASEC]);
        let place = sections.into_iter().find_map(|section| {
            let count = btf.type_record(section)?.vlen;
            btf.words::<3>(section, count)?.into_iter().find(|[variable, ..]| own.contains(variable))
        });
        Some(Variable {
            name: name.to_owned(),
            ty,
            per_cpu: place.is_some(),
            offset: place.map(|[_, offset, _]| u64::from(offset)),
            size: place.map(|[_, _, size]| u64::from(size)).or_else(|| self.size(ty)),
        })
    }
}

impl Modules {
    /// Number of the part that holds a module's types.
    fn part(&self, name: &str) -> Option<usize> {
        let name = name.replace('-', "_");
        self.loaded.iter().position(|(loaded, _)| *loaded == name).map(|index| index + 1)
    }
}

fn split(id: TypeId) -> (usize, u32) {
    ((id.0 >> 32) as usize, id.0 as u32)
}

impl TypeSource for BtfTypes {
    fn get(&self, id: TypeId) -> Option<Type> {
        if id == TypeId::VOID {
            return Some(Type::Void);
        }
        let (part, id) = split(id);
        let btf = self.part(part)?;
        let raw = btf.type_record(id)?;
        let of = self.id(part, raw.size_or_type);
        let name = || btf.type_name(id);
        let size = u64::from(raw.size_or_type);
        let qualified = |qualifier| Type::Qualified { qualifier, of };
        Some(match raw.kind {
            KIND_INT | KIND_FLOAT => Type::Base { name: name()?, size },
            KIND_PTR => Type::Pointer { to: of, size: POINTER },
            KIND_ARRAY => {
                let [element, _, count] = btf.words::<3>(id, 1)?[0];
                Type::Array { of: self.id(part, element), counts: vec![u64::from(count)] }
            }
            KIND_STRUCT | KIND_UNION => Type::Record(self.record(part, &btf, id)?),
            KIND_ENUM | KIND_ENUM64 => Type::Enumeration { name: name(), size },
            KIND_FWD => {
                let kind = if raw.flag { RecordKind::Union } else { RecordKind::Structure };
                Type::Forward { kind, name: name()? }
            }
            KIND_TYPEDEF => Type::Alias { name: name()?, of },
            KIND_VOLATILE => qualified(Qualifier::Volatile),
            KIND_CONST => qualified(Qualifier::Const),
            KIND_RESTRICT => qualified(Qualifier::Restrict),
            KIND_TYPE_TAG => qualified(Qualifier::Tag),
            KIND_FUNC_PROTO => {
                Type::Function { returns: of, parameters: self.parameters(part, &btf, id, raw.vlen)? }
            }
            _ => return None,
        })
    }

    fn named(&self, name: &str) -> Vec<TypeId> {
        let loaded = self.modules.borrow().loaded.len();
        let found: Vec<TypeId> = (0..=loaded).flat_map(|part| self.records_named(part, name)).collect();
        if !found.is_empty() {
            return found;
        }
        self.first(|part| Some(self.records_named(part, name)).filter(|found| !found.is_empty()))
            .unwrap_or_default()
    }

    fn tagged(&self, tag: &str) -> Option<TypeId> {
        let loaded = self.modules.borrow().loaded.len();
        (0..=loaded).find_map(|part| self.own_named(part, tag, &[KIND_STRUCT, KIND_UNION]).into_iter().next())
    }

    fn prototype(&self, symbol: &str) -> Option<Prototype> {
        self.prototype_in(None, symbol)
    }

    fn variable(&self, name: &str) -> Option<Variable> {
        self.first(|part| self.variable_in(part, name))
    }

    fn names(&self) -> Vec<String> {
        let loaded = self.modules.borrow().loaded.len();
        let mut names = Vec::new();
        for btf in (0..=loaded).filter_map(|part| self.part(part)) {
            let records = btf.own_ids().filter(|id| {
                btf.type_record(*id).is_some_and(|raw| matches!(raw.kind, KIND_STRUCT | KIND_UNION))
            });
            names.extend(records.filter_map(|id| btf.type_name(id)));
        }
        names
    }
}
