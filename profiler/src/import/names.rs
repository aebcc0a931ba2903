//! Functions and binaries as perf and its relatives name them.

use std::sync::Arc;

use crate::profile::{Frame, Origin};

/// Bracketed names that are no kernel modules.
const USER_BRACKETS: [&str; 9] =
    ["vdso", "vsyscall", "stack", "heap", "unknown", "uprobes", "anon", "vectors", "sigpage"];

/// Names of the kernel proper.
const KERNEL: [&str; 6] = [
    "[kernel.kallsyms]",
    "[kernel]",
    "[kernel.vmlinux]",
    "[guest.kernel.kallsyms]",
    "vmlinux",
    "[kernel.kallsyms]_stext",
];

/// Whether a binary is the kernel or a module of it.
pub(crate) fn is_kernel(binary: &str) -> bool {
    KERNEL.contains(&binary)
        || file_name(binary).starts_with("vmlinux")
        || kernel_module(binary).is_some()
        || binary.starts_with("bpf_prog_")
}

/// The name of a kernel module: of `[xfs]`, or of `/lib/modules/.../xfs.ko.xz`.
fn kernel_module(binary: &str) -> Option<&str> {
    if let Some(name) = binary.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let module = !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
            && !USER_BRACKETS.contains(&name)
            && name != "kernel";
        return module.then_some(name);
    }
    let file = file_name(binary);
    let (name, extension) = file.split_once(".ko")?;
    (!name.is_empty() && (extension.is_empty() || extension.starts_with('.'))).then_some(name)
}

pub(crate) fn file_name(path: &str) -> &str {
    path.rsplit('/').find(|part| !part.is_empty()).unwrap_or(path)
}

/// A function of a binary. `kernel` says which side it is on where the source knows; else the binary tells.
pub(crate) fn frame(symbol: &str, binary: Option<&str>, kernel: Option<bool>) -> Frame {
    let kernel = kernel.unwrap_or_else(|| binary.is_some_and(is_kernel));
    let module: Option<Arc<str>> = binary.and_then(|binary| {
        if kernel {
            kernel_module(binary).map(Into::into)
        } else {
            let name = file_name(binary);
            (!name.is_empty() && binary != "[unknown]").then(|| name.into())
        }
    });
    let name = if symbol.is_empty() { "[unknown]" } else { symbol };
    Frame { name: name.into(), module, origin: if kernel { Origin::Kernel } else { Origin::User } }
}

/// A symbol that may have its module behind it: `xfs_agino_range [xfs]`, `xfs_agino_range_[xfs]`.
pub(crate) fn split_module(symbol: &str) -> (&str, Option<&str>) {
    let Some(before) = symbol.strip_suffix(']') else { return (symbol, None) };
    match before.rfind('[') {
        Some(at) if at > 1 && matches!(before.as_bytes()[at - 1], b' ' | b'_' | b'\t') => {
            let module = &symbol[at..];
            (symbol[..at - 1].trim_end(), Some(&module[1..module.len() - 1]))
        }
        _ => (symbol, None),
    }
}

/// Names by which the kernel is entered: what is below them is kernel code.
pub(crate) fn is_kernel_entry(name: &str) -> bool {
    const ENTRIES: [&str; 12] = [
        "do_syscall_64",
        "x64_sys_call",
        "ret_from_fork",
        "ret_from_fork_asm",
        "el0t_64_sync",
        "el0_svc",
        "el1h_64_irq",
        "secondary_startup_64",
        "secondary_startup_64_no_verify",
        "common_startup_64",
        "syscall_return_slowpath",
        "kthread",
    ];
    ENTRIES.contains(&name)
        || name.starts_with("entry_SYSCALL")
        || name.starts_with("entry_SYSENTER")
        || name.starts_with("asm_exc_")
        || name.starts_with("asm_sysvec_")
        || name.starts_with("asm_common_interrupt")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binaries_of_the_kernel() {
        for name in [
            "[kernel.kallsyms]",
            "[xfs]",
            "vmlinux",
            "/usr/lib/debug/boot/vmlinux-6.1.0-9-amd64",
            "/lib/modules/6.1/xfs.ko.xz",
        ] {
            assert!(is_kernel(name), "{name}");
        }
        for name in ["[vdso]", "[unknown]", "[JIT] tid 42", "libc.so.6", "/usr/bin/fio", "", "a.kons"] {
            assert!(!is_kernel(name), "{name}");
        }
        assert_eq!(frame("f", Some("/lib/modules/6.1/kernel/fs/xfs/xfs.ko.xz"), None).qualified(), "f [xfs]");
        assert_eq!(frame("f", Some("[kernel.kallsyms]"), None), Frame::kernel("f"));
        assert_eq!(frame("main", Some("/usr/bin/fio"), None), Frame::user("main", "fio"));
    }

    #[test]
    fn modules_behind_symbols() {
        assert_eq!(split_module("f [xfs]"), ("f", Some("xfs")));
        assert_eq!(split_module("f_[xfs]"), ("f", Some("xfs")));
        assert_eq!(split_module("[unknown]"), ("[unknown]", None));
        assert_eq!(split_module("operator[]"), ("operator[]", None));
        assert_eq!(split_module("f"), ("f", None));
    }
}
