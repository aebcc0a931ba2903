//! `profiler layout`: how a structure lies in cache lines.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;

use crate::report::escape::sanitize_to;
use crate::report::layout as report;
use crate::report::text::Style;
use crate::types::advice::{Language, separate};
use crate::types::btf::BtfTypes;
use crate::types::dwarf::DwarfTypes;
use crate::types::line::{Start, around, line_size};
use crate::types::{Layout, TypeId, TypeSource};

/// Options of `profiler layout`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The structure or union: its tag, or a typedef of it. A global variable stands for its type.
    #[arg(value_name = "STRUCT")]
    structure: String,
    /// Show only what shares a cache line with this member, such as `m_sb.sb_inopblog`.
    #[arg(value_name = "MEMBER")]
    member: Option<String>,
    /// Take the types from this file: BTF, or an ELF file with BTF such as vmlinux or a kernel module.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["binary", "module"])]
    btf: Option<PathBuf>,
    /// Take the types from the debug information (DWARF) of this program or library.
    #[arg(long, value_name = "FILE", conflicts_with = "module")]
    binary: Option<PathBuf>,
    /// Look in this module of the running kernel first.
    #[arg(long, value_name = "NAME")]
    module: Option<String>,
    /// Bytes of a cache line; by default this machine's.
    #[arg(long, value_name = "BYTES", value_parser = line_bytes)]
    line: Option<u64>,
}

fn line_bytes(text: &str) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(bytes) if bytes.is_power_of_two() && (16..=4096).contains(&bytes) => Ok(bytes),
        _ => Err("a line has a power of two of bytes, from 16 to 4096".to_owned()),
    }
}

/// Suggestions for a name that there is not.
const SUGGESTIONS: usize = 5;

/// Prints the structure, or the line of its member.
///
/// # Errors
///
/// If there are no types, no such structure or no such member, or if standard output cannot be written.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    // `struct inode` is as good as `inode`.
    let name = args.structure.trim();
    let name = name.strip_prefix("struct ").or_else(|| name.strip_prefix("union ")).unwrap_or(name).trim();
    if let Some(path) = &args.binary {
        let types = DwarfTypes::open(path)?;
        return show(&types, types.named(name), name, args, Language::C);
    }
    let types = match &args.btf {
        Some(path) => BtfTypes::from_file(path)?,
        None => BtfTypes::running()?,
    };
    let found = match &args.module {
        Some(module) => {
            types.load_module(module)?;
            types.named_in(module, name)
        }
        None => types.named(name),
    };
    show(&types, found, name, args, Language::Kernel)
}

fn show(
    types: &dyn TypeSource,
    found: Vec<TypeId>,
    name: &str,
    args: &Args,
    language: Language,
) -> anyhow::Result<ExitCode> {
    let variable = if found.is_empty() { types.variable(name) } else { None };
    let found = match &variable {
        Some(variable) => vec![variable.ty],
        None => found,
    };
    let layouts: Vec<Layout> = found.iter().filter_map(|id| types.layout(*id)).collect();
    let (Some(layout), shown) = (layouts.first(), sanitize_to(name, 60)) else {
        bail!(unknown("structure", name, &types.names()));
    };
    let stdout = io::stdout();
    let style = Style { color: stdout.is_terminal(), ..Style::default() };
    let mut out = io::BufWriter::new(stdout.lock());
    let line = args.line.unwrap_or_else(line_size);
    let mut write = || -> anyhow::Result<()> {
        if let Some(variable) = &variable {
            let per_cpu = if variable.per_cpu { ", of which each CPU has its own" } else { "" };
            writeln!(out, "{shown} is a variable{per_cpu}:\n")?;
        }
        if layouts.len() > 1 {
            let sizes: Vec<String> = layouts.iter().map(|layout| layout.size.to_string()).collect();
            writeln!(
                out,
                "There are {} structures of this name, of {} bytes; this is the first.\n",
                layouts.len(),
                sizes.join(", ")
            )?;
        }
        match &args.member {
            None => report::structure(types, layout, line, &style, &mut out)?,
            Some(member) => {
                let (offset, size) = place(types, layout, member)?;
                let near = around(types, layout, offset, size, Start::of(layout, line), line);
                let separation = separate(types, layout, &near, language);
                report::neighbourhood(layout, &near, separation.as_ref(), &style, &mut out)?;
            }
        }
        Ok(out.flush()?)
    };
    match write() {
        // `| head` has seen enough.
        Err(error) if !is_broken_pipe(&error) => Err(error),
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Where a member lies, also one of a structure within: offset and size in bytes.
fn place(types: &dyn TypeSource, layout: &Layout, path: &str) -> anyhow::Result<(u64, u64)> {
    let mut inside = layout.clone();
    let mut base = 0;
    let mut parts = path.split('.').peekable();
    while let Some(part) = parts.next() {
        let names: Vec<String> =
            inside.named_members().into_iter().map(|member| member.path.clone()).collect();
        let Some(member) = inside.member(part).cloned() else {
            bail!(unknown(&format!("member of {}", sanitize_to(&inside.name, 60)), part, &names));
        };
        if parts.peek().is_none() {
            return Ok((base + member.offset(), member.size().max(1)));
        }
        base += member.offset();
        match types.layout(member.ty) {
            Some(next) => inside = next,
            None => bail!("{} is no structure, so it has no members", sanitize_to(part, 60)),
        }
    }
    bail!("a member needs a name");
}

/// That there is no such name, and which are like it.
fn unknown(what: &str, name: &str, names: &[String]) -> String {
    let mut like: Vec<(f64, &str)> = names
        .iter()
        .map(|known| {
            let contained = known.contains(name) || name.contains(known.as_str());
            (strsim::jaro_winkler(known, name) + if contained { 0.1 } else { 0.0 }, known.as_str())
        })
        .filter(|(likeness, _)| *likeness > 0.85)
        .collect();
    like.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    like.dedup_by_key(|(_, name)| *name);
    let like: Vec<String> = like.iter().take(SUGGESTIONS).map(|(_, name)| sanitize_to(name, 60)).collect();
    let hint = if like.is_empty() { String::new() } else { format!("; did you mean {}?", like.join(", ")) };
    format!("there is no {what} {}{hint}", sanitize_to(name, 60))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::encoder::mount;

    #[test]
    fn members_of_structures_within() {
        let types = mount().types();
        let layout = types.structure("mount").unwrap();
        let of = |path| place(&types, &layout, path).map_err(|error| error.to_string());
        assert_eq!(of("m_agino_log"), Ok((72, 4)));
        assert_eq!(of("m_sb.sb_inopblog"), Ok((65, 1)));
        assert_eq!(of("m_high"), Ok((52, 4)));
        assert_eq!(of("m_table"), Ok((320, 1)));
        assert!(of("m_agino").unwrap_err().contains("m_agino_log"));
        assert!(of("m_done.x").unwrap_err().contains("no structure"));
        assert!(of("").is_err());
    }

    #[test]
    fn names_that_are_like_it() {
        let names = ["inode", "dinode", "xfs_inode", "inode"].map(str::to_owned);
        let text = unknown("structure", "inod", &names);
        assert!(text.starts_with("there is no structure inod; did you mean inode"), "{text}");
        assert_eq!(text.matches(" inode").count(), 1);
        assert_eq!(unknown("structure", "\x1b", &[]), "there is no structure \\x1b");
    }
}
