//! Types as C writes them.

use super::{MAX_DEPTH, Qualifier, Type, TypeId, TypeSource};

/// The type as C writes it, without a member's name: `const struct list_head *`, `unsigned char[16]`,
/// `int (*)(struct inode *)`. Types that are not known are `?`.
pub(super) fn type_name<S: TypeSource + ?Sized>(source: &S, id: TypeId) -> String {
    declare(source, id, String::new(), 0)
}

/// A declaration of `name` with this type.
pub(super) fn declaration<S: TypeSource + ?Sized>(source: &S, id: TypeId, name: &str) -> String {
    declare(source, id, name.to_owned(), 0)
}

/// `declarator` is what stands to the right of the type's own name so far, from the inside out: C's declarations read so.
fn declare<S: TypeSource + ?Sized>(source: &S, id: TypeId, declarator: String, depth: usize) -> String {
    // Hostile types can be long as well as deep.
    if depth > MAX_DEPTH || declarator.len() > 1000 {
        return format!("?{declarator}");
    }
    let named = |name: &str| format!("{name}{}", spaced(&declarator));
    let tagged = |keyword: &str, name: Option<&str>| match name {
        Some(name) => named(&format!("{keyword} {name}")),
        None => named(&format!("{keyword} {{...}}")),
    };
    match source.get(id) {
        None => named("?"),
        Some(Type::Void) => named("void"),
        Some(Type::Base { name, .. } | Type::Alias { name, .. }) => named(&name),
        Some(Type::Enumeration { name, .. }) => tagged("enum", name.as_deref()),
        Some(Type::Record(record)) => tagged(record.kind.keyword(), record.name.as_deref()),
        Some(Type::Forward { kind, name }) => tagged(kind.keyword(), Some(&name)),
        Some(Type::Pointer { to, .. }) => {
            let binds_tighter = matches!(source.get(to), Some(Type::Array { .. } | Type::Function { .. }));
            let inner = if binds_tighter { format!("(*{declarator})") } else { format!("*{declarator}") };
            declare(source, to, inner, depth + 1)
        }
        Some(Type::Array { of, counts }) => {
            let counts = counts.iter().map(|count| match count {
                0 => "[]".to_owned(),
                count => format!("[{count}]"),
            });
            declare(source, of, declarator + &counts.collect::<String>(), depth + 1)
        }
        Some(Type::Qualified { qualifier, of }) => {
            let word = match qualifier {
                Qualifier::Const => "const",
                Qualifier::Volatile => "volatile",
                Qualifier::Restrict => "restrict",
                Qualifier::Atomic => "_Atomic",
                Qualifier::Tag => return declare(source, of, declarator, depth + 1),
            };
            match source.get(of) {
                // `char *const`: the qualifier of a pointer stands behind its asterisk.
                Some(Type::Pointer { .. }) => {
                    declare(source, of, format!("{word}{}", spaced(&declarator)), depth + 1)
                }
                _ => format!("{word} {}", declare(source, of, declarator, depth + 1)),
            }
        }
        Some(Type::Function { returns, parameters }) => {
            let list = match parameters.as_slice() {
                [] => "void".to_owned(),
                // A signature within a signature is cut short: it would hide what matters.
                _ if depth > 4 => "...".to_owned(),
                some => {
                    let shown = some.iter().map(|one| declare(source, one.ty, String::new(), depth + 5));
                    shown.take(16).collect::<Vec<_>>().join(", ")
                }
            };
            declare(source, returns, format!("{declarator}({list})"), depth + 1)
        }
    }
}

/// A declarator behind a type's name; brackets follow without a space.
fn spaced(declarator: &str) -> String {
    if declarator.is_empty() || declarator.starts_with('[') {
        declarator.to_owned()
    } else {
        format!(" {declarator}")
    }
}
