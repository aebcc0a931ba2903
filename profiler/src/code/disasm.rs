//! Instructions of a function in AT&T syntax, as kernel developers read them, and the ways between them.

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Formatter as _, GasFormatter, Instruction, Mnemonic, OpKind,
};

/// The architecture that can be disassembled, as `uname -m` has it.
pub const ARCHITECTURE: &str = "x86_64";

/// A disassembled function.
#[derive(Clone, Debug)]
pub struct Code {
    /// Address of the first instruction.
    pub start: u64,
    /// The instructions in order, without gaps.
    pub lines: Vec<Line>,
    /// Indices of the instructions that can come directly before each one, by index: the one above it, branches to it.
    before: Vec<Vec<usize>>,
}

/// An instruction.
#[derive(Clone, Debug)]
pub struct Line {
    /// Where it begins, in bytes from the start of the function.
    pub offset: u32,
    /// Mnemonic and operands. Branches within the function name their target by its offset: `jne +0x1c`.
    pub text: String,
    /// The decoded instruction.
    pub(super) decoded: Instruction,
}

impl Code {
    /// Disassembles `bytes`, which lie at `start`. `symbol` names the targets of calls and jumps that leave the
    /// function. Padding behind the last instruction is left out. Bytes that are no instruction are `(bad)`.
    pub fn new(start: u64, bytes: &[u8], symbol: impl Fn(u64) -> Option<String>) -> Self {
        let mut formatter = GasFormatter::new();
        let options = formatter.options_mut();
        options.set_space_after_operand_separator(false);
        options.set_uppercase_hex(false);
        options.set_show_branch_size(false);
        options.set_rip_relative_addresses(true);
        let mut decoder = Decoder::with_ip(64, bytes, start, DecoderOptions::NONE);
        let mut lines = Vec::new();
        while decoder.can_decode() {
            let decoded = decoder.decode();
            let offset = decoded.ip().wrapping_sub(start) as u32;
            lines.push(Line { offset, text: String::new(), decoded });
        }
        trim_padding(&mut lines);
        let end = start.wrapping_add(bytes.len() as u64);
        for line in &mut lines {
            line.text = format(&mut formatter, &line.decoded, start..end, &symbol);
        }
        let mut code = Self { start, lines, before: Vec::new() };
        code.before = code.ways_in();
        code
    }

    /// The instruction that contains the byte at `offset`.
    pub fn at(&self, offset: u32) -> Option<usize> {
        let index = self.lines.partition_point(|line| line.offset <= offset).checked_sub(1)?;
        let line = &self.lines[index];
        (offset - line.offset < line.decoded.len() as u32).then_some(index)
    }

    /// Size in bytes, without the padding.
    pub fn size(&self) -> u32 {
        self.lines.last().map_or(0, |line| line.offset + line.decoded.len() as u32)
    }

    /// The instructions that can come directly before this one. Those that get there by a computed jump are not known.
    pub fn before(&self, index: usize) -> &[usize] {
        self.before.get(index).map_or(&[], Vec::as_slice)
    }

    /// Where calls and jumps go that leave the function.
    pub fn leaves_to(&self) -> impl Iterator<Item = u64> {
        let near = self.lines.iter().filter(|line| is_near(&line.decoded));
        near.map(|line| line.decoded.near_branch_target()).filter(|target| {
            let inside = target.wrapping_sub(self.start);
            inside == 0 || inside >= u64::from(self.size())
        })
    }

    /// The instruction that a branch goes to, where that is in this function.
    pub(super) fn target(&self, index: usize) -> Option<usize> {
        let line = self.lines.get(index)?;
        let jumps = matches!(
            line.decoded.flow_control(),
            FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch
        );
        let target = line.decoded.near_branch_target().wrapping_sub(self.start);
        let index = self.at(u32::try_from(target).ok().filter(|_| jumps && is_near(&line.decoded))?)?;
        // Into the middle of an instruction: data, or code that is patched.
        (u64::from(self.lines[index].offset) == target).then_some(index)
    }

    /// Whether the instruction below is what comes next, if nothing branches.
    pub(super) fn falls_through(&self, index: usize) -> bool {
        !matches!(
            self.lines[index].decoded.flow_control(),
            FlowControl::UnconditionalBranch
                | FlowControl::IndirectBranch
                | FlowControl::Return
                | FlowControl::Exception
        ) && index + 1 < self.lines.len()
    }

    fn ways_in(&self) -> Vec<Vec<usize>> {
        let mut before = vec![Vec::new(); self.lines.len()];
        for index in 0..self.lines.len() {
            if self.falls_through(index) {
                before[index + 1].push(index);
            }
            if let Some(target) = self.target(index) {
                before[target].push(index);
            }
        }
        before
    }
}

impl Line {
    /// The mnemonic in lower case, with its prefixes: `lock addq`.
    pub fn mnemonic(&self) -> &str {
        let end = self.text.find(' ').unwrap_or(self.text.len());
        match &self.text[..end] {
            "lock" | "rep" | "repe" | "repne" | "notrack" => {
                let second = self.text[end..].trim_start();
                let length = second.find(' ').unwrap_or(second.len());
                &self.text[..self.text.len() - second.len() + length]
            }
            mnemonic => mnemonic,
        }
    }

    /// Whether this tells the CPU that the loop around it waits.
    pub fn is_pause(&self) -> bool {
        self.decoded.mnemonic() == Mnemonic::Pause
    }

    /// Whether this ends the function.
    pub fn is_return(&self) -> bool {
        self.decoded.flow_control() == FlowControl::Return
    }

    /// Whether this works on many bytes at once: `rep movsb` and the like.
    pub fn is_repeated(&self) -> bool {
        (self.decoded.has_rep_prefix() || self.decoded.has_repne_prefix())
            && self.decoded.is_string_instruction()
    }
}

pub(super) fn is_near(instruction: &Instruction) -> bool {
    matches!(instruction.op0_kind(), OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64)
}

/// Functions are aligned: what fills the gap to the next one is never executed.
fn trim_padding(lines: &mut Vec<Line>) {
    let is_padding = |line: &Line| {
        let decoded = &line.decoded;
        matches!(decoded.mnemonic(), Mnemonic::Nop | Mnemonic::Int3 | Mnemonic::INVALID)
    };
    let used = lines.iter().rposition(|line| !is_padding(line)).map_or(0, |last| last + 1);
    lines.truncate(used);
}

fn format(
    formatter: &mut GasFormatter,
    instruction: &Instruction,
    function: std::ops::Range<u64>,
    symbol: &impl Fn(u64) -> Option<String>,
) -> String {
    let mut text = String::new();
    if is_near(instruction) {
        let target = instruction.near_branch_target();
        formatter.format_mnemonic(instruction, &mut text);
        text.push(' ');
        // A call of itself is a call of a name.
        let inside = function.contains(&target) && (target != function.start || symbol(target).is_none());
        text.push_str(&match symbol(target) {
            _ if inside => format!("+{:#x}", target - function.start),
            Some(name) => name,
            None => format!("{target:#x}"),
        });
    } else {
        formatter.format(instruction, &mut text);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(bytes: &[u8]) -> Vec<String> {
        let symbol = |address| (address == 0x2000).then(|| "helper".to_owned());
        Code::new(0x1000, bytes, symbol).lines.into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn reads_as_objdump_prints_it() {
        let bytes = [
            0xf3, 0x0f, 0x1e, 0xfa, // endbr64
            0x48, 0x8b, 0x0f, // mov (%rdi),%rcx
            0xf0, 0x48, 0xff, 0x47, 0x08, // lock incq 0x8(%rdi)
            0x75, 0xf2, // jne 0x1000
            0xe8, 0xed, 0x0f, 0x00, 0x00, // call 0x2000
            0x0f, 0x1f, 0x40, 0x00, // nop
            0xc3, // ret
            0x90, 0xcc, 0xcc, // padding
        ];
        assert_eq!(
            texts(&bytes),
            [
                "endbr64",
                "mov (%rdi),%rcx",
                "lock incq 8(%rdi)",
                "jne +0x0",
                "call helper",
                "nopl (%rax)",
                "ret"
            ]
        );
    }

    #[test]
    fn knows_what_comes_before() {
        let bytes = [
            0x74, 0x05, // 0: je +7
            0x48, 0x8b, 0x07, // 2: mov (%rdi),%rax
            0xeb, 0x03, // 5: jmp +0xa
            0x48, 0x8b, 0x06, // 7: mov (%rsi),%rax
            0xc3, // a: ret
        ];
        let code = Code::new(0x1000, &bytes, |_| None);
        let index = |offset| code.at(offset).unwrap();
        assert_eq!(code.before(index(7)), [index(0)]);
        assert_eq!(code.before(index(0xa)), [index(5), index(7)]);
        assert_eq!(code.at(3), Some(1));
        assert_eq!(code.at(11), None);
        assert_eq!(code.size(), 11);
        assert_eq!(code.lines[index(5)].mnemonic(), "jmp");
    }

    #[test]
    fn any_bytes_are_survived() {
        let mut state = 1_u32;
        for length in 0..200 {
            let bytes: Vec<u8> = (0..length)
                .map(|_| {
                    state = state.wrapping_mul(1_103_515_245).wrapping_add(12345);
                    (state >> 16) as u8
                })
                .collect();
            let code = Code::new(u64::MAX - 50, &bytes, |_| None);
            for index in 0..code.lines.len() {
                assert!(code.before(index).iter().all(|before| *before < code.lines.len()));
            }
        }
    }
}
