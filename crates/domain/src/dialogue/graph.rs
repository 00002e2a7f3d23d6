//! The states of a rules file and the ways between them: what lint walks, and what people look at.

use super::rules::{PressAct, Rules};

/// Where a way begins that can be taken from everywhere.
pub const ANYWHERE: &str = "*";

/// One way from a state to another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Way {
    pub from: String,
    pub to: String,
    /// What takes it, in a word or two.
    pub by: String,
    /// Nobody has to say anything for it.
    pub by_itself: bool,
}

/// Every way of the rules, in order and each once.
pub fn ways(rules: &Rules) -> Vec<Way> {
    let mut ways = Vec::new();
    let mut add = |from: &str, to: &str, by: String, by_itself: bool| {
        ways.push(Way { from: from.to_owned(), to: to.to_owned(), by, by_itself });
    };
    for rule in &rules.rules {
        let from = rule.state.as_deref().unwrap_or(ANYWHERE);
        if let Some(to) = &rule.acts.goto {
            add(from, to, rule.name.clone(), false);
        } else if rule.acts.end {
            add(from, &rules.start, rule.name.clone(), false);
        }
    }
    for (name, state) in &rules.states {
        let asks = state.ask.as_ref();
        for next in &state.next {
            let by = asks.map_or_else(String::new, |ask| ask.slot.clone());
            add(name, &next.goto, by, asks.is_none());
        }
        if let Some(failed) = asks.and_then(|ask| ask.failed.as_ref()) {
            add(name, failed, "tries".to_owned(), false);
        }
        if let Some(idle) = &state.idle {
            add(name, &idle.goto, "idle".to_owned(), false);
        }
        if state.acts.end {
            add(name, &rules.start, "end".to_owned(), false);
        }
    }
    for pressed in rules.presses.values() {
        if let PressAct::Goto(to) = &pressed.act {
            add(pressed.state.as_deref().unwrap_or(ANYWHERE), to, format!("[{}]", pressed.title), false);
        }
    }
    for rung in &rules.fallback {
        if let Some(to) = &rung.goto {
            add(ANYWHERE, to, "fallback".to_owned(), false);
        }
    }
    ways.sort();
    ways.dedup();
    ways
}

/// A picture for whatever draws Mermaid.
pub fn mermaid(rules: &Rules) -> String {
    let mut out = String::from("stateDiagram-v2\n");
    out += &format!("    [*] --> {}\n", id(&rules.start));
    for name in rules.states.keys() {
        out += &format!("    state \"{}\" as {}\n", label(name), id(name));
    }
    let ways = ways(rules);
    if ways.iter().any(|way| way.from == ANYWHERE) {
        out += &format!("    state \"anywhere\" as {}\n", id(ANYWHERE));
    }
    for way in ways {
        let by = if way.by.is_empty() { String::new() } else { format!(" : {}", label(&way.by)) };
        out += &format!("    {} --> {}{by}\n", id(&way.from), id(&way.to));
    }
    out
}

/// A picture for Graphviz.
pub fn dot(rules: &Rules) -> String {
    let mut out = String::from("digraph bot {\n    rankdir=LR;\n");
    for name in rules.states.keys() {
        let shape = if *name == rules.start { "doublecircle" } else { "box" };
        out += &format!("    {} [label=\"{}\", shape={shape}];\n", id(name), label(name));
    }
    let ways = ways(rules);
    if ways.iter().any(|way| way.from == ANYWHERE) {
        out += &format!("    {} [label=\"anywhere\", shape=plaintext];\n", id(ANYWHERE));
    }
    for way in ways {
        out += &format!("    {} -> {} [label=\"{}\"];\n", id(&way.from), id(&way.to), label(&way.by));
    }
    out + "}\n"
}

fn id(name: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() { c.to_string() } else { format!("_{:x}_", c as u32) };
    format!("s_{}", name.chars().map(plain).collect::<String>())
}

fn label(text: &str) -> String {
    text.chars().filter(|c| !matches!(c, '"' | '\\' | ';' | '\n' | ':' | '{' | '}')).collect()
}
