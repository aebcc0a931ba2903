//! What hypervisor the machine runs under.

use super::super::sources::{Sources, read};

/// Signatures of the CPUID leaf 0x40000000 and their names (arch/x86/kernel/cpu/hypervisor.c and the drivers it
/// lists).
const SIGNATURES: [(&[u8; 12], &str); 10] = [
    (b"KVMKVMKVM\0\0\0", "KVM"),
    (b"Microsoft Hv", "Hyper-V"),
    (b"VMwareVMware", "VMware"),
    (b"XenVMMXenVMM", "Xen"),
    (b"TCGTCGTCGTCG", "QEMU TCG"),
    (b"bhyve bhyve ", "bhyve"),
    (b"VBoxVBoxVBox", "VirtualBox"),
    (b"ACRNACRNACRN", "ACRN"),
    (b"Jailhouse\0\0\0", "Jailhouse"),
    (b" lrpepyh  vr", "Parallels"),
];

/// DMI vendors that only make virtual machines, for architectures without CPUID.
const VIRTUAL_VENDORS: [&str; 5] = ["QEMU", "VMware, Inc.", "innotek GmbH", "Xen", "KubeVirt"];

/// The hypervisor with what the firmware tells about the machine, as in `KVM (Amazon EC2 m5.large)`.
///
/// `signature` is that of CPUID, if this is a virtual x86 machine.
pub fn hypervisor(sources: &Sources, signature: Option<[u8; 12]>) -> Option<String> {
    let dmi = |name: &str| read(&sources.sys.join("class/dmi/id").join(name)).filter(|text| !text.is_empty());
    let vendor = dmi("sys_vendor");
    let name = signature
        .map(signature_name)
        .or_else(|| match read(&sources.sys.join("hypervisor/type"))?.as_str() {
            "xen" => Some("Xen".to_owned()),
            "" => None,
            other => Some(other.to_owned()),
        })
        .or_else(|| vendor.clone().filter(|vendor| VIRTUAL_VENDORS.contains(&vendor.as_str())))?;
    let machine: Vec<String> =
        vendor.into_iter().chain(dmi("product_name")).filter(|text| *text != name).collect();
    if machine.is_empty() { Some(name) } else { Some(format!("{name} ({})", machine.join(" "))) }
}

fn signature_name(signature: [u8; 12]) -> String {
    match SIGNATURES.iter().find(|(known, _)| **known == signature) {
        Some((_, name)) => (*name).to_owned(),
        None => match signature.trim_ascii_end().escape_ascii().to_string().trim_end_matches("\\x00") {
            "" => "unknown".to_owned(),
            text => text.to_owned(),
        },
    }
}

/// The signature that the hypervisor gives in CPUID, or `None` on real hardware and other architectures.
pub fn cpuid_signature() -> Option<[u8; 12]> {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::__cpuid;
        const HYPERVISOR_PRESENT: u32 = 1 << 31; // leaf 1, ECX

        if __cpuid(1).ecx & HYPERVISOR_PRESENT == 0 {
            return None;
        }
        // A hypervisor that poses as Hyper-V for Windows guests has its own signature 0x100 leaves further on.
        let signatures = [0x4000_0000, 0x4000_0100].map(|leaf| {
            let leaf = __cpuid(leaf);
            let mut signature = [0; 12];
            for (part, register) in signature.chunks_exact_mut(4).zip([leaf.ebx, leaf.ecx, leaf.edx]) {
                part.copy_from_slice(&register.to_le_bytes());
            }
            signature
        });
        let own = SIGNATURES.iter().any(|(known, _)| **known == signatures[1]);
        Some(if &signatures[0] == b"Microsoft Hv" && own { signatures[1] } else { signatures[0] })
    }
    #[cfg(not(target_arch = "x86_64"))]
    None
}

#[cfg(test)]
mod tests {
    use super::super::super::sources::fixture::Fixture;
    use super::*;

    fn dmi(vendor: &str, product: &str) -> Fixture {
        Fixture::new(&[("sys/class/dmi/id/sys_vendor", vendor), ("sys/class/dmi/id/product_name", product)])
    }

    #[test]
    fn virtual_machines_have_a_name() {
        let none = Fixture::new(&[]);
        let name = |fixture: &Fixture, signature: Option<&[u8; 12]>| {
            hypervisor(&fixture.sources, signature.copied()).unwrap_or_default()
        };
        assert_eq!(name(&none, Some(b"KVMKVMKVM\0\0\0")), "KVM");
        assert_eq!(
            name(&dmi("Amazon EC2\n", "m5.large\n"), Some(b"KVMKVMKVM\0\0\0")),
            "KVM (Amazon EC2 m5.large)"
        );
        assert_eq!(name(&dmi("QEMU\n", "QEMU Virtual Machine\n"), None), "QEMU (QEMU Virtual Machine)");
        assert_eq!(name(&Fixture::new(&[("sys/hypervisor/type", "xen\n")]), None), "Xen");
        assert_eq!(name(&none, Some(b"NewOne\x1b[0m\0\0")), "NewOne\\x1b[0m");
        assert_eq!(name(&none, Some(&[0; 12])), "unknown");
    }

    #[test]
    fn real_machines_have_none() {
        assert_eq!(hypervisor(&dmi("Dell Inc.", "PowerEdge R650").sources, None), None);
        assert_eq!(hypervisor(&dmi("Amazon EC2", "m5.metal").sources, None), None);
    }
}
