//! Where rows go: into groups, a build side, or the result.

use std::fmt::Write as _;

use forebay_base::{Error, Result};
use forebay_pipeline::ir::{Register, State, StateId, ValueType};

use super::{Emitter, Frame, GroupPlace, type_name, unsupported};
use crate::groups::{Kept, Place, SlotLayout};

impl Emitter<'_> {
    pub(super) fn build(&mut self, state: StateId, keys: &[Register], payload: &[Register]) -> Result<Frame> {
        let join = self.dense(state)?;
        if join.keeps_all {
            return Err(unsupported("all rows of a build side are kept"));
        }
        let types = join.payload.clone();
        self.need(keys)?;
        self.need(payload)?;
        let key = keys[0];
        let live = self.live("pass", &[key]);
        let first = self.mask();
        self.line(format!("Mask {first} = enter(p.target, {key}, {live}, faults);"));
        self.line(format!("entered += (u32)__popc({first});"));
        for (number, (register, typed)) in payload.iter().zip(&types).enumerate() {
            type_name(typed.value)?;
            let arguments = format!("p.stored[{number}], p.target, {key}");
            let scatter = if typed.value == ValueType::Bool { "scatter_truth" } else { "scatter" };
            let (kept, faults) = match (typed.value, typed.nullable) {
                (ValueType::I64, false) => (first.clone(), ", faults"),
                // What a NULL leaves in its register is nothing that an entry must hold.
                (ValueType::I64, true) => (format!("{first} & ~{}", self.nulls(*register)), ", faults"),
                _ => (first.clone(), ""),
            };
            self.line(format!("{scatter}({arguments}, {kept}, {register}{faults});"));
            if typed.nullable {
                let nulls = self.nulls(*register);
                self.line(format!("scatter_valid({arguments}, {first} & ~{nulls});"));
            }
        }
        let mut parameters = "    Build target;\n    u64* entered;\n".to_owned();
        if !payload.is_empty() {
            let _ = writeln!(parameters, "    Payload stored[{}];", payload.len());
        }
        let (before, after) =
            ("    u32 entered = 0;\n".to_owned(), "    add_entered(p.entered, entered);\n".to_owned());
        Ok(Frame { header: "probe", parameters, before, after })
    }

    pub(super) fn collect(&mut self, columns: &[Register]) -> Result<Frame> {
        self.need(columns)?;
        let at = format!("a{}", self.mask());
        self.line(format!("u64 {at} = reserve(p.room, pass, faults);"));
        for (number, register) in columns.iter().enumerate() {
            let value = self.typed(*register).value;
            type_name(value)?;
            let store = if value == ValueType::Bool { "store_truth" } else { "store" };
            self.line(format!("{store}(p.outputs[{number}], {at}, pass, {register});"));
            if self.typed(*register).nullable {
                self.line(format!("store_nulls(p.outputs[{number}], {at}, pass, n{});", register.0));
            }
        }
        let mut parameters = "    Room room;\n".to_owned();
        if !columns.is_empty() {
            let _ = writeln!(parameters, "    Output outputs[{}];", columns.len());
        }
        Ok(Frame { header: "store", parameters, ..Frame::default() })
    }

    pub(super) fn aggregate(
        &mut self,
        state: StateId,
        keys: &[Register],
        arguments: &[Option<Register>],
    ) -> Result<Frame> {
        let State::Aggregate(groups) = &self.program.states[state.0 as usize] else {
            return Err(Error::internal("groups in a build side"));
        };
        let layout = SlotLayout::new(&groups.aggregates)?;
        let place = self.state_places.groups.ok_or_else(|| Error::internal("groups without a place"))?;
        let key_types = groups.keys.clone();
        let read: Vec<Register> = arguments.iter().flatten().copied().collect();
        self.need(keys)?;
        self.need(&read)?;
        if (place == GroupPlace::One) != keys.is_empty() {
            return Err(Error::internal("groups in another place than their keys say"));
        }
        if place == GroupPlace::One {
            return self.one_group(&layout, arguments);
        }
        self.line("u32 slots[ITEMS];");
        self.line("FOR_ITEMS slots[i] = 0;");
        for (number, (register, typed)) in keys.iter().zip(&key_types).enumerate() {
            let nulls = self.nulls(*register);
            let name = match typed.value {
                ValueType::I64 => register.to_string(),
                ValueType::Bool => {
                    self.line(format!("i64 key{number}[ITEMS];"));
                    self.line(format!("FOR_ITEMS key{number}[i] = is_set({register}, i) ? 1 : 0;"));
                    format!("key{number}")
                }
                _ => return Err(unsupported(format!("groups on the device have no keys of type {typed}"))),
            };
            self.line(format!("locate(p.keys[{number}], {name}, {nulls}, pass, slots, faults);"));
        }
        self.line("FOR_ITEMS if (is_set(pass, i)) {");
        self.depth += 1;
        let words = layout.words;
        self.line(format!("u64* group = table + (u64)slots[i] * {words};"));
        let block = if place == GroupPlace::Shared { "block_" } else { "" };
        self.line(format!("{block}add_word(group, 1);"));
        for (place, argument) in layout.places.iter().zip(arguments) {
            let Some(argument) = argument.filter(|_| place.kept != Kept::Rows) else { continue };
            self.add(place, argument, block);
        }
        self.depth -= 1;
        self.line("}");
        let mut frame = Frame {
            header: "aggregate",
            parameters: format!("    GroupKey keys[{}];\n    u64* groups;\n    u64 slots;\n", keys.len()),
            before: "    u64* table = p.groups;\n".to_owned(),
            after: String::new(),
        };
        if place == GroupPlace::Shared {
            frame.before =
                format!("    SHARED_WORDS(table);\n    clear_words(table, p.slots * {words});\n    __syncthreads();\n");
            frame.after = flush(&layout);
        }
        Ok(frame)
    }

    /// Adds an argument to a group's words; `block` begins the names of what adds in shared memory.
    fn add(&mut self, place: &Place, argument: Register, block: &str) {
        let nulls = self.nulls(argument);
        let at = place.at;
        let value = match self.typed(argument).value {
            ValueType::Bool => format!("(i64)is_set({argument}, i)"),
            _ => format!("{argument}[i]"),
        };
        let text = match place.kept {
            Kept::Rows => return,
            Kept::Count => format!("{block}add_word(group + {at}, 1);"),
            Kept::Sum(1) => format!("{block}add_word(group + {at}, (u64){value});"),
            Kept::Sum(2) => format!("{block}add_wide(group + {at}, {value});"),
            Kept::Sum(_) => format!("{block}add_widest(group + {at}, {value});"),
            Kept::SumFloat => format!("add_float(group + {at}, {value});"),
            Kept::Greatest => format!("add_greatest(group + {at}, order_key({value}));"),
            Kept::Least => format!("add_least(group + {at}, order_key({value}));"),
        };
        let seen = place.seen.map(|seen| format!("{block}add_word(group + {seen}, 1);"));
        match nulls.as_str() {
            "0" => {
                self.line(text);
                seen.into_iter().for_each(|seen| self.line(seen));
            }
            nulls => {
                self.line(format!("if (!is_set({nulls}, i)) {{"));
                self.line(format!("    {text}"));
                seen.into_iter().for_each(|seen| self.line(format!("    {seen}")));
                self.line("}");
            }
        }
    }

    /// One group: threads add up in registers, warps at the end.
    fn one_group(&mut self, layout: &SlotLayout, arguments: &[Option<Register>]) -> Result<Frame> {
        let parameters = "    u64* groups;\n    u64 slots;\n".to_owned();
        let mut frame = Frame { header: "aggregate", parameters, ..Frame::default() };
        let mut ends = Vec::new();
        let mut keep = |frame: &mut Frame, kind: &str, word: usize, combine: &str, end: &str| {
            let _ = writeln!(frame.before, "    {kind} w{word} = 0;");
            let _ = writeln!(frame.after, "    w{word} = {combine}(w{word});");
            ends.push(end.replace("AT", &format!("p.groups + {word}")).replace("VALUE", &format!("w{word}")));
        };
        keep(&mut frame, "u64", 0, "warp_sum", "add_word(AT, VALUE);");
        self.line("w0 += (u32)__popc(pass);");
        for (place, argument) in layout.places.iter().zip(arguments) {
            let Some(argument) = argument.filter(|_| place.kept != Kept::Rows) else { continue };
            let live = self.live("pass", &[argument]);
            let value = match self.typed(argument).value {
                ValueType::Bool => format!("(i64)is_set({argument}, i)"),
                _ => format!("{argument}[i]"),
            };
            let at = place.at;
            let add = match place.kept {
                Kept::Rows | Kept::Count => {
                    keep(&mut frame, "u64", at, "warp_sum", "add_word(AT, VALUE);");
                    self.line(format!("w{at} += (u32)__popc({live});"));
                    continue;
                }
                Kept::Sum(1) => {
                    keep(&mut frame, "u64", at, "warp_sum", "add_word(AT, VALUE);");
                    format!("w{at} += (u64){value}")
                }
                Kept::Sum(2) => {
                    keep(&mut frame, "i128", at, "warp_sum", "add_wide(AT, VALUE);");
                    format!("w{at} += {value}")
                }
                Kept::Sum(_) => format!("add_widest(p.groups + {at}, {value})"),
                Kept::SumFloat => {
                    keep(&mut frame, "f64", at, "warp_sum", "add_float(AT, VALUE);");
                    format!("w{at} += {value}")
                }
                Kept::Greatest | Kept::Least => {
                    keep(&mut frame, "u64", at, "warp_greatest", "atomicMax(AT, VALUE);");
                    let not = if place.kept == Kept::Least { "~" } else { "" };
                    format!("w{at} = greater(w{at}, {not}rank_of(order_key({value})))")
                }
            };
            self.line(format!("FOR_ITEMS if (is_set({live}, i)) {add};"));
            if let Some(seen) = place.seen {
                keep(&mut frame, "u64", seen, "warp_sum", "add_word(AT, VALUE);");
                self.line(format!("w{seen} += (u32)__popc({live});"));
            }
        }
        frame.after.push_str("    if (threadIdx.x % LANES == 0) {\n");
        for end in ends {
            let _ = writeln!(frame.after, "        {end}");
        }
        frame.after.push_str("    }\n");
        Ok(frame)
    }
}

/// Adds a block's words to those of the device.
fn flush(layout: &SlotLayout) -> String {
    let words = layout.words;
    let mut text =
        "    __syncthreads();\n    for (u64 slot = threadIdx.x; slot < p.slots; slot += THREADS) {\n".to_owned();
    let _ = writeln!(text, "        const u64* own = table + slot * {words};");
    let _ = writeln!(text, "        u64* group = p.groups + slot * {words};");
    text.push_str("        if (own[0] == 0) continue;\n        add_word(group, own[0]);\n");
    for place in &layout.places {
        let at = place.at;
        match place.kept {
            Kept::Rows => {}
            Kept::Count => {
                let _ = writeln!(text, "        add_word(group + {at}, own[{at}]);");
            }
            Kept::Sum(count) => {
                let _ = writeln!(text, "        merge_sum(group + {at}, own + {at}, {count});");
            }
            Kept::SumFloat => {
                let _ = writeln!(text, "        add_float(group + {at}, __longlong_as_double((i64)own[{at}]));");
            }
            Kept::Greatest | Kept::Least => {
                let _ = writeln!(text, "        atomicMax(group + {at}, own[{at}]);");
            }
        }
        if let Some(seen) = place.seen {
            let _ = writeln!(text, "        add_word(group + {seen}, own[{seen}]);");
        }
    }
    text.push_str("    }\n");
    text
}
