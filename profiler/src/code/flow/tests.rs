use super::*;

/// The operands of hand-assembled code (the comments have what was assembled), as text.
fn shown(hex: &str) -> Vec<String> {
    let bytes: Vec<u8> =
        (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect();
    let code = Code::new(0x1000, &bytes, |_| None);
    operands(&code).iter().map(|operand| show(&code, operand)).collect()
}

fn show(code: &Code, operand: &Operand) -> String {
    let place = match &operand.place {
        Ok(place) => {
            let root = match place.root {
                Root::Argument(number) => format!("arg{number}"),
                Root::Result(address) => format!("result of {address:#x}"),
                other => format!("{other:?}").to_lowercase(),
            };
            let follows: String = place.follows.iter().map(|offset| format!("[{offset:#x}]")).collect();
            format!("{root}{follows}{:+}", place.offset)
        }
        Err(why) => format!("{why:?}"),
    };
    let access = match (operand.reads, operand.writes) {
        (true, true) => "updates",
        (true, false) => "reads",
        _ => "writes",
    };
    let locked = if operand.locked { "locked " } else { "" };
    let size = if operand.size == 0 { "many".to_owned() } else { operand.size.to_string() };
    format!("{}: {locked}{access} {size} {place}", code.lines[operand.line].mnemonic())
}

#[test]
fn pointers_are_followed() {
    // mov (%rdi),%rcx; add %rcx,%rax; lea 16(%rdi),%rdx; mov 8(%rdx),%rsi; mov 32(%rsi),%r8;
    // lock incq 64(%r8); ret
    assert_eq!(
        shown("488b0f4801c8488d5710488b72084c8b4620f049ff4040c3"),
        [
            "mov: reads 8 arg0+0",
            "mov: reads 8 arg0+24",
            "mov: reads 8 arg0[0x18]+32",
            "lock incq: locked updates 8 arg0[0x18][0x20]+64",
        ]
    );
}

#[test]
fn arguments_survive_calls_where_they_were_put() {
    // push %rbp; mov %rsp,%rbp; push %rbx; sub $24,%rsp; mov %rsi,-24(%rbp); mov %rdi,%rbx; call;
    // mov 8(%rbx),%rax; mov -24(%rbp),%rcx; mov 16(%rcx),%rdx; mov 4(%rdi),%esi; mov 8(%rax),%r9;
    // add $24,%rsp; pop %rbx; pop %rbp; ret
    assert_eq!(
        shown(
            "554889e5534883ec18488975e84889fbe8fb000000488b4308488b4de8488b51108b77044c8b48084883c4185b5dc3"
        ),
        [
            "mov: writes 8 stack-32",
            "mov: reads 8 arg0+8",
            "mov: reads 8 stack-32",
            "mov: reads 8 arg1+16",
            "mov: reads 4 Register",
            "mov: reads 8 arg0[0x8]+8",
        ]
    );
}

#[test]
fn ways_that_disagree_know_nothing() {
    // test %rsi,%rsi; je 1f; mov %rsi,%rdi; 1: mov 8(%rdi),%rax; ret
    assert_eq!(shown("4885f674034889f7488b4708c3"), ["mov: reads 8 Register"]);
    // mov $16,%ecx; 1: mov (%rdi),%rax; mov 8(%rsi),%rdx; add $8,%rdi; dec %ecx; jne 1b; mov %rdi,%rax; ret
    assert_eq!(
        shown("b910000000488b07488b56084883c708ffc975f14889f8c3"),
        ["mov: reads 8 Register", "mov: reads 8 arg1+8"]
    );
}

#[test]
fn other_memory_is_told_apart() {
    // mov (%rdi,%rcx,8),%rax; mov %gs:0x1234,%rdx; mov 24(%rdx),%rax; mov 0x100(%rip),%rbx; mov (%rbx),%rbx;
    // mov 8(%rsp),%r10; mov 16(%r10),%r11; xchg %rax,8(%rsi); rep movsb; ret
    let operands =
        shown("488b04cf65488b142534120000488b4218488b1d00010000488b1b4c8b5424084d8b5a1048874608f3a4c3");
    assert_eq!(
        operands[..8],
        [
            "mov: reads 8 Indexed",
            "mov: reads 8 own+4660",
            "mov: reads 8 own[0x1234]+24",
            "mov: reads 8 fixed+4376",
            "mov: reads 8 fixed[0x1118]+0",
            "mov: reads 8 stack+8",
            "mov: reads 8 arg6+16",
            "xchg: locked updates 8 arg1+8",
        ]
    );
    assert!(
        operands[8..].iter().all(|operand| operand.starts_with("rep movsb") && operand.contains(" many "))
    );
}

#[test]
fn callees_change_what_they_are_given() {
    // lea -64(%rsp),%rdi; mov %rsi,-32(%rsp); mov %rsi,%rbx; call; mov -32(%rsp),%rax; mov (%rax),%rax;
    // mov (%rbx),%rbx; ret
    assert_eq!(
        shown("488d7c24c048897424e04889f3e8fb000000488b4424e0488b00488b1bc3")[2..],
        ["mov: reads 8 Register", "mov: reads 8 arg1+0"]
    );
}

#[test]
fn only_whole_pointers_are_followed() {
    // xchg %rdi,%rsi; mov 8(%rdi),%rax; mov %edi,%edi; mov 8(%rdi),%rax; xor %eax,%eax; mov (%rdx,%rax,4),%rcx;
    // call; mov 8(%rax),%rdx; ret
    assert_eq!(
        shown("4887fe488b470889ff488b470831c0488b0c82e8fb010000488b5008c3"),
        [
            "mov: reads 8 arg1+8",
            "mov: reads 8 Register",
            "mov: reads 8 arg2+0",
            "mov: reads 8 result of 0x1213+8",
        ]
    );
}

#[test]
fn computed_jumps_may_go_anywhere() {
    // mov %rdi,%rbx; jmp *%rax; mov 8(%rbx),%rcx; ret; mov 8(%rdi),%rcx; ret
    assert_eq!(shown("4889fbffe0488b4b08c3488b4f08c3"), ["mov: reads 8 arg0+8", "mov: reads 8 arg0+8"]);
}

#[test]
fn any_bytes_are_survived() {
    let mut state = 7_u32;
    for length in 0..300 {
        let bytes: Vec<u8> = (0..length)
            .map(|_| {
                state = state.wrapping_mul(1_103_515_245).wrapping_add(12345);
                (state >> 16) as u8
            })
            .collect();
        let code = Code::new(0x1000, &bytes, |_| None);
        assert!(operands(&code).iter().all(|operand| operand.line < code.lines.len()));
    }
}
