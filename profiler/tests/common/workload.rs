//! The programs that are measured: C, since they are about system calls and need frame pointers.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A compiled program of `tests/workloads`.
pub struct Workload {
    folder: TempDir,
    name: String,
}

impl Workload {
    /// Compiles `tests/workloads/NAME.c`.
    #[track_caller]
    pub fn build(name: &str) -> Self {
        Self::build_as(name, name)
    }

    /// The same as distributions build programs: optimised, without frame pointers.
    #[track_caller]
    pub fn build_optimised(name: &str) -> Self {
        Self::compile(name, name, &["-O2", "-g"])
    }

    /// The same, under another name.
    #[track_caller]
    pub fn build_as(name: &str, program: &str) -> Self {
        // Unoptimised code has frame pointers everywhere, leaf functions included.
        Self::compile(name, program, &["-O0", "-g", "-fno-omit-frame-pointer"])
    }

    #[track_caller]
    fn compile(name: &str, program: &str, options: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/workloads").join(format!("{name}.c"));
        // The compiler that rustc links with.
        let output = Command::new("cc")
            .args(options)
            .args(["-pthread", "-Wall", "-Wextra", "-Werror", "-o"])
            .arg(folder.path().join(program))
            .arg(source)
            .output()
            .expect("cannot run cc");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self { folder, name: program.to_owned() }
    }

    /// Path of the program.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join(&self.name)
    }

    /// The path as an argument.
    pub fn arg(&self) -> String {
        self.path().into_os_string().into_string().unwrap()
    }
}
