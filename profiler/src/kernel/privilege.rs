//! Whether this process may load eBPF programs, and what it may see.

use std::path::Path;

use super::sources::{Sources, parse, read};

/// Numbers of the capabilities (include/uapi/linux/capability.h).
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// Why no eBPF program can be loaded.
#[derive(Debug, thiserror::Error)]
pub enum PrivilegeError {
    /// Capabilities are missing.
    #[error(
        "loading eBPF programs needs {}, which this process does not have; run\n    {sudo}\n\
         or, for any user, once\n    {setcap}",
        missing.join(" and ")
    )]
    Missing {
        /// Their names.
        missing: Vec<&'static str>,
        /// The same command with sudo.
        sudo: String,
        /// The command that gives the program its capabilities.
        setcap: String,
    },
    /// It is root, but not with all rights.
    #[error(
        "loading eBPF programs needs {}, which root does not have here: it was taken away, as container \
         runtimes do; run it on the host, or start the container with `--privileged`",
        missing.join(" and ")
    )]
    Container {
        /// Their names.
        missing: Vec<&'static str>,
    },
    /// It is root only in its own user namespace.
    #[error(
        "loading eBPF programs needs rights in the initial user namespace, but this process runs in another one \
         (a rootless container, perhaps); run it on the host with sudo"
    )]
    UserNamespace,
}

/// Whether this process may load tracing programs: it needs CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN, which
/// includes both and is the only one that kernels before 5.8 know.
///
/// Root normally has all of them, and what counts are the capabilities: in containers root lacks some.
pub fn check() -> Result<(), PrivilegeError> {
    let args: Vec<String> = std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let exe = std::env::current_exe().unwrap_or_else(|_| "profiler".into());
    check_with(&Sources::default(), nix::unistd::geteuid().is_root(), &exe, &args)
}

fn check_with(sources: &Sources, is_root: bool, exe: &Path, args: &[String]) -> Result<(), PrivilegeError> {
    // Without /proc there is nothing to go by: let the kernel decide.
    let Some(effective) = effective_capabilities(sources) else { return Ok(()) };
    let has = |capability: u32| effective >> capability & 1 == 1;
    let known = parse::<u32>(&sources.proc.join("sys/kernel/cap_last_cap")).unwrap_or(CAP_BPF);
    let missing: Vec<&'static str> = if has(CAP_SYS_ADMIN) {
        Vec::new()
    } else if known < CAP_BPF {
        vec!["CAP_SYS_ADMIN"]
    } else {
        [(CAP_BPF, "CAP_BPF"), (CAP_PERFMON, "CAP_PERFMON")]
            .into_iter()
            .filter_map(|(number, name)| (!has(number)).then_some(name))
            .collect()
    };
    if missing.is_empty() {
        return if in_user_namespace(sources) { Err(PrivilegeError::UserNamespace) } else { Ok(()) };
    }
    if is_root {
        return Err(PrivilegeError::Container { missing });
    }
    let capabilities = if known < CAP_BPF {
        "cap_sys_admin,cap_syslog,cap_sys_ptrace,cap_dac_read_search+ep"
    } else {
        // Beyond the two: kernel symbols, other users' processes, and tracefs.
        "cap_bpf,cap_perfmon,cap_syslog,cap_sys_ptrace,cap_dac_read_search+ep"
    };
    Err(PrivilegeError::Missing {
        missing,
        sudo: sudo_command(exe, args),
        setcap: format!("sudo setcap {capabilities} {}", quote(&exe.to_string_lossy())),
    })
}

/// `CapEff` of this process.
fn effective_capabilities(sources: &Sources) -> Option<u64> {
    let status = read(&sources.proc.join("self/status"))?;
    let hex = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(hex.trim(), 16).ok()
}

/// Whether user ids are mapped: only the initial namespace maps all to themselves.
fn in_user_namespace(sources: &Sources) -> bool {
    read(&sources.proc.join("self/uid_map"))
        .is_some_and(|map| map.split_whitespace().ne(["0", "0", "4294967295"]))
}

/// The command line with `sudo`, to be pasted into a shell. The program gets its full path where sudo would not
/// find it, as its search path is its own.
fn sudo_command(exe: &Path, args: &[String]) -> String {
    const SEARCHED: [&str; 6] =
        ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
    let called = args.first().map_or("profiler", String::as_str);
    let found = exe.parent().is_some_and(|folder| SEARCHED.iter().any(|known| folder == Path::new(known)));
    let program =
        if called.contains('/') || found { called.to_owned() } else { exe.to_string_lossy().into_owned() };
    std::iter::once("sudo".to_owned())
        .chain(std::iter::once(quote(&program)))
        .chain(args.iter().skip(1).map(|arg| quote(arg)))
        .collect::<Vec<_>>()
        .join(" ")
}

fn quote(text: &str) -> String {
    // Only a NUL byte cannot be quoted, and arguments have none.
    shlex::try_quote(text).map_or_else(|_| text.to_owned(), |quoted| quoted.into_owned())
}

/// A sentence for the report where the kernel hides its addresses from this process, so that kernel frames get no
/// names.
pub fn hidden_kernel_addresses(sources: &Sources) -> Option<String> {
    use std::io::BufRead as _;
    let kallsyms = std::fs::File::open(sources.proc.join("kallsyms"));
    let Ok(kallsyms) = kallsyms else {
        return Some(
            "/proc/kallsyms cannot be read (a kernel without CONFIG_KALLSYMS?): kernel functions are shown as \
             addresses."
                .to_owned(),
        );
    };
    // Some of the first symbols are offsets into per-CPU data and may be 0 by right; not all of them.
    const LOOKED_AT: usize = 4096;
    let hidden =
        std::io::BufReader::new(kallsyms).lines().take(LOOKED_AT).map_while(Result::ok).all(|line| {
            line.split(' ').next().is_some_and(|address| address.bytes().all(|digit| digit == b'0'))
        });
    if !hidden {
        return None;
    }
    let why = match parse::<u32>(&sources.proc.join("sys/kernel/kptr_restrict")) {
        Some(2) => "kernel.kptr_restrict is 2: `sudo sysctl kernel.kptr_restrict=1` shows them to root",
        _ => "this process lacks CAP_SYSLOG: run it with sudo",
    };
    Some(format!("The kernel hides its addresses, so kernel functions are shown as addresses ({why})."))
}

#[cfg(test)]
mod tests {
    use super::super::sources::fixture::Fixture;
    use super::*;

    fn fixture(effective: u64, last: u32, uid_map: &str) -> Fixture {
        Fixture::new(&[
            ("proc/self/status", &format!("Name:\tx\nCapPrm:\t0\nCapEff:\t{effective:016x}\n")),
            ("proc/sys/kernel/cap_last_cap", &format!("{last}\n")),
            ("proc/self/uid_map", uid_map),
        ])
    }

    const INITIAL: &str = "         0          0 4294967295\n";

    fn check(fixture: &Fixture, is_root: bool) -> Result<(), String> {
        let args = ["profiler", "attach", "--output", "my run", "--", "fio", "a'b"].map(str::to_owned);
        check_with(&fixture.sources, is_root, Path::new("/home/me/.cargo/bin/profiler"), &args)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn capabilities_decide() {
        let both = 1 << CAP_BPF | 1 << CAP_PERFMON;
        assert_eq!(check(&fixture(both, 40, INITIAL), false), Ok(()));
        assert_eq!(check(&fixture(1 << CAP_SYS_ADMIN, 40, INITIAL), false), Ok(()));
        assert_eq!(check(&fixture(1 << CAP_SYS_ADMIN, 37, INITIAL), true), Ok(()));
        assert_eq!(check(&Fixture::new(&[]), false), Ok(()));
    }

    #[test]
    fn errors_name_the_way_out() {
        let errors = [
            check(&fixture(0, 40, INITIAL), false),
            check(&fixture(1 << CAP_PERFMON, 40, INITIAL), false),
            check(&fixture(0, 37, INITIAL), false),
            check(&fixture(0, 40, INITIAL), true),
            check(&fixture(u64::MAX, 40, "0 1000 1\n"), true),
        ];
        insta::assert_snapshot!(errors.map(Result::unwrap_err).join("\n\n"));
    }

    #[test]
    fn sudo_gets_the_path_only_where_it_has_to() {
        let command = |exe: &str, called: &str| sudo_command(Path::new(exe), &[called.to_owned()]);
        assert_eq!(command("/usr/bin/profiler", "profiler"), "sudo profiler");
        assert_eq!(command("/home/me/x/profiler", "./profiler"), "sudo ./profiler");
        assert_eq!(command("/home/my bin/profiler", "profiler"), "sudo '/home/my bin/profiler'");
    }

    #[test]
    fn hidden_addresses_are_a_blind_spot() {
        let sentence = |symbols: &str, kptr_restrict: &str| {
            let fixture =
                Fixture::new(&[("proc/kallsyms", symbols), ("proc/sys/kernel/kptr_restrict", kptr_restrict)]);
            hidden_kernel_addresses(&fixture.sources)
        };
        let hidden = "0000000000000000 A fixed_percpu_data\n0000000000000000 T _stext\n";
        assert!(sentence(hidden, "1\n").unwrap().contains("CAP_SYSLOG"));
        assert!(sentence(hidden, "2\n").unwrap().contains("kptr_restrict=1"));
        assert_eq!(sentence("0000000000000000 A fixed_percpu_data\nffffffff81000000 T _stext\n", "1"), None);
        assert!(hidden_kernel_addresses(&Fixture::new(&[]).sources).unwrap().contains("CONFIG_KALLSYMS"));
    }
}
