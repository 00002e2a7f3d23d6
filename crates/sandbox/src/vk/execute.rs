//! `execute`: runs a script whose calls count as one request. A call that fails yields `false`
//! and leaves a line in `execute_errors`; the script goes on.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use crate::reply::Effect;

use super::args::{Args, Version};
use super::errors::ApiError;
use super::script::{self, Expression, Statement};
use super::{Ctx, Done, methods};

/// Calls of one script.
const CALLS_MAX: usize = 25;
/// Steps of one script.
const STEPS_MAX: usize = 1000;
/// Bytes of one answer.
const ANSWER_BYTES_MAX: usize = 5 << 20;

/// Runs the script. The answer is the whole body, with `execute_errors` beside `response`.
pub(super) fn run(ctx: &mut Ctx<'_>) -> Result<Done, ApiError> {
    let code = ctx.args.required_text("code")?;
    let program = script::compile(code).map_err(|why| ApiError::new(12, why))?;
    let mut machine = Machine {
        ctx,
        names: HashMap::new(),
        steps: 0,
        calls: 0,
        errors: Vec::new(),
        effect: Effect::done(),
        visible: Vec::new(),
    };
    let returned = match machine.block(&program)? {
        Flow::Return(value) => value,
        Flow::On => Value::Null,
    };
    let Machine { errors, mut effect, mut visible, .. } = machine;
    effect.visible_id = match visible.len() {
        0 => Value::Null,
        1 => visible.remove(0),
        _ => visible.into(),
    };
    let mut body = Map::new();
    body.insert("response".into(), returned);
    if !errors.is_empty() {
        body.insert("execute_errors".into(), errors.into());
    }
    let body = Value::Object(body);
    if body.to_string().len() > ANSWER_BYTES_MAX {
        return Err(ApiError::new(13, "response size is too big"));
    }
    Ok(Done { response: body, effect })
}

struct Machine<'a, 'b> {
    ctx: &'a mut Ctx<'b>,
    names: HashMap<String, Value>,
    steps: usize,
    calls: usize,
    errors: Vec<Value>,
    effect: Effect,
    visible: Vec<Value>,
}

enum Flow {
    On,
    Return(Value),
}

fn runtime(why: impl Into<String>) -> ApiError {
    ApiError::new(13, why)
}

impl Machine<'_, '_> {
    fn block(&mut self, body: &[Statement]) -> Result<Flow, ApiError> {
        for statement in body {
            if let Flow::Return(value) = self.statement(statement)? {
                return Ok(Flow::Return(value));
            }
        }
        Ok(Flow::On)
    }

    fn statement(&mut self, statement: &Statement) -> Result<Flow, ApiError> {
        self.step()?;
        match statement {
            Statement::Let(names) => {
                for (name, value) in names {
                    let value = value.as_ref().map_or(Ok(Value::Null), |value| self.value(value))?;
                    self.names.insert(name.clone(), value);
                }
            }
            Statement::Assign(place, value) => {
                let value = self.value(value)?;
                *self.place(place)? = value;
            }
            Statement::If(test, then, otherwise) => {
                if truth(&self.value(test)?) {
                    return self.statement(then);
                }
                if let Some(otherwise) = otherwise {
                    return self.statement(otherwise);
                }
            }
            Statement::While(test, body) => {
                while truth(&self.value(test)?) {
                    if let Flow::Return(value) = self.statement(body)? {
                        return Ok(Flow::Return(value));
                    }
                }
            }
            Statement::DoWhile(body, test) => loop {
                if let Flow::Return(value) = self.statement(body)? {
                    return Ok(Flow::Return(value));
                }
                if !truth(&self.value(test)?) {
                    break;
                }
            },
            Statement::Block(body) => return self.block(body),
            Statement::Return(value) => {
                let value = value.as_ref().map_or(Ok(Value::Null), |value| self.value(value))?;
                return Ok(Flow::Return(value));
            }
            Statement::Delete(Expression::Member(object, name)) => {
                if let Some(object) = self.place(object)?.as_object_mut() {
                    object.remove(name);
                }
            }
            Statement::Delete(_) => return Err(runtime("only fields can be deleted")),
            Statement::Do(expression) => {
                self.value(expression)?;
            }
        }
        Ok(Flow::On)
    }

    fn step(&mut self) -> Result<(), ApiError> {
        self.steps += 1;
        if self.steps > STEPS_MAX { Err(runtime("Too many operations")) } else { Ok(()) }
    }

    /// Where a value is kept, made on the way if it was not there.
    fn place(&mut self, expression: &Expression) -> Result<&mut Value, ApiError> {
        match expression {
            Expression::Name(name) => Ok(self.names.entry(name.clone()).or_insert(Value::Null)),
            Expression::Member(object, name) => {
                let object = self.place(object)?;
                if !object.is_object() {
                    *object = json!({});
                }
                Ok(&mut object[name.as_str()])
            }
            Expression::Index(list, index) => {
                let index = self.value(index)?;
                let place = self.place(list)?;
                match (place, index) {
                    (Value::Array(list), Value::Number(index)) => {
                        let index = index.as_u64().and_then(|index| usize::try_from(index).ok());
                        let index = index.filter(|index| *index <= list.len() && *index < 10_000);
                        let index = index.ok_or_else(|| runtime("index is out of range"))?;
                        if index == list.len() {
                            list.push(Value::Null);
                        }
                        Ok(&mut list[index])
                    }
                    (place, key) => {
                        if !place.is_object() {
                            *place = json!({});
                        }
                        Ok(&mut place[text(&key).as_str()])
                    }
                }
            }
            _ => Err(runtime("this cannot be assigned to")),
        }
    }

    fn value(&mut self, expression: &Expression) -> Result<Value, ApiError> {
        Ok(match expression {
            Expression::Null => Value::Null,
            Expression::Bool(value) => (*value).into(),
            Expression::Integer(value) => (*value).into(),
            Expression::Float(value) => json!(value),
            Expression::Text(value) => value.as_str().into(),
            Expression::Array(items) => {
                let items: Result<Vec<Value>, ApiError> = items.iter().map(|item| self.value(item)).collect();
                items?.into()
            }
            Expression::Object(fields) => {
                let mut object = Map::new();
                for (name, value) in fields {
                    object.insert(name.clone(), self.value(value)?);
                }
                object.into()
            }
            Expression::Name(name) if name == "Args" => self.arguments(),
            Expression::Name(name) => self.names.get(name).cloned().unwrap_or_default(),
            Expression::Member(object, name) => member(&self.value(object)?, name),
            Expression::Index(list, index) => {
                let (list, index) = (self.value(list)?, self.value(index)?);
                match (&list, &index) {
                    (Value::Array(list), Value::Number(index)) => {
                        index.as_u64().and_then(|index| list.get(index as usize)).cloned().unwrap_or_default()
                    }
                    (object, key) => member(object, &text(key)),
                }
            }
            Expression::Each(list, name) => match self.value(list)? {
                Value::Array(list) => list.iter().map(|item| member(item, name)).collect(),
                _ => Value::Null,
            },
            Expression::Call(function, arguments) => self.call(function, arguments)?,
            Expression::Not(inner) => (!truth(&self.value(inner)?)).into(),
            Expression::Negative(inner) => calculated("-", &Value::from(0), &self.value(inner)?),
            Expression::Binary(sign, left, right) => self.binary(sign, left, right)?,
            Expression::Choice(test, then, otherwise) => {
                if truth(&self.value(test)?) {
                    self.value(then)?
                } else {
                    self.value(otherwise)?
                }
            }
        })
    }

    fn binary(&mut self, sign: &str, left: &Expression, right: &Expression) -> Result<Value, ApiError> {
        self.step()?;
        let left = self.value(left)?;
        match sign {
            "&&" if !truth(&left) => return Ok(left),
            "||" if truth(&left) => return Ok(left),
            _ => {}
        }
        let right = self.value(right)?;
        Ok(match sign {
            "&&" | "||" => right,
            "==" => equal(&left, &right).into(),
            "!=" => (!equal(&left, &right)).into(),
            "<" | ">" | "<=" | ">=" => compared(sign, &left, &right).into(),
            _ => calculated(sign, &left, &right),
        })
    }

    /// The parameters of the request itself.
    fn arguments(&self) -> Value {
        let open = self.ctx.args.texts.iter().filter(|(name, _)| name != "access_token" && name != "code");
        Value::Object(open.map(|(name, value)| (name.clone(), value.as_str().into())).collect())
    }

    fn call(&mut self, function: &Expression, arguments: &[Expression]) -> Result<Value, ApiError> {
        self.step()?;
        if let Some(method) = method_name(function) {
            let arguments = arguments.first().map_or(Ok(json!({})), |argument| self.value(argument))?;
            return self.api(&method, &arguments);
        }
        let mut values = Vec::new();
        for argument in arguments {
            values.push(self.value(argument)?);
        }
        match function {
            Expression::Name(name) if name == "parseInt" => Ok(integer(values.first()).into()),
            Expression::Name(name) if name == "parseDouble" => {
                Ok(json!(values.first().map_or(0.0, |value| text(value).trim().parse().unwrap_or(0.0))))
            }
            Expression::Member(object, name) => self.method_of(object, name, values),
            _ => Err(runtime("this cannot be called")),
        }
    }

    /// `list.push(x)` and its like; those that change the list change it where it is kept.
    fn method_of(
        &mut self,
        object: &Expression,
        name: &str,
        mut values: Vec<Value>,
    ) -> Result<Value, ApiError> {
        if matches!(name, "push" | "pop" | "shift" | "unshift" | "splice") {
            let Some(list) = self.place(object)?.as_array_mut() else { return Ok(Value::Null) };
            return Ok(match name {
                "push" => {
                    list.append(&mut values);
                    list.len().into()
                }
                "pop" => list.pop().unwrap_or_default(),
                "unshift" => {
                    list.splice(0..0, values);
                    list.len().into()
                }
                "shift" => {
                    if list.is_empty() {
                        Value::Null
                    } else {
                        list.remove(0)
                    }
                }
                _ => {
                    let start = (integer(values.first()).max(0) as usize).min(list.len());
                    let count =
                        values.get(1).map_or(list.len(), |count| integer(Some(count)).max(0) as usize);
                    let end = start.saturating_add(count).min(list.len());
                    list.splice(start..end, values.into_iter().skip(2)).collect()
                }
            });
        }
        let target = self.value(object)?;
        Ok(match (&target, name) {
            (Value::Array(list), "slice") => list[range(&values, list.len())].to_vec().into(),
            (Value::Array(list), "indexOf") => {
                let wanted = values.first().unwrap_or(&Value::Null);
                list.iter().position(|item| equal(item, wanted)).map_or(Value::from(-1), Value::from)
            }
            (Value::Array(list), "join") => {
                let gap = values.first().map_or(",".to_owned(), text);
                list.iter().map(text).collect::<Vec<_>>().join(&gap).into()
            }
            (Value::Array(list), "concat") => {
                let mut all = list.clone();
                for value in values {
                    match value {
                        Value::Array(more) => all.extend(more),
                        one => all.push(one),
                    }
                }
                all.into()
            }
            (Value::String(own), "split") => {
                let gap = values.first().map_or(String::new(), text);
                if gap.is_empty() {
                    own.chars().map(String::from).collect()
                } else {
                    own.split(gap.as_str()).collect()
                }
            }
            (Value::String(own), "substr" | "slice") => {
                let characters: Vec<char> = own.chars().collect();
                if name == "substr" && values.len() > 1 {
                    values[1] = (integer(values.first()) + integer(values.get(1))).into();
                }
                characters[range(&values, characters.len())].iter().collect::<String>().into()
            }
            (Value::String(own), "indexOf") => {
                let wanted = values.first().map_or(String::new(), text);
                own.find(&wanted).map_or(Value::from(-1), |at| own[..at].chars().count().into())
            }
            _ => return Err(runtime(format!("unknown function {name}"))),
        })
    }

    /// A call of a method, with the token of the script.
    fn api(&mut self, method: &str, arguments: &Value) -> Result<Value, ApiError> {
        self.calls += 1;
        if self.calls > CALLS_MAX {
            return Err(runtime("Too many api calls"));
        }
        let mut args = Args::default();
        for (name, value) in arguments.as_object().into_iter().flatten() {
            if !value.is_null() {
                args.set(name, parameter(value));
            }
        }
        let version = args.text("v").and_then(Version::parse).unwrap_or(self.ctx.version);
        match self.enter(method, &args, version) {
            Ok(done) => {
                if !done.effect.visible_id.is_null() {
                    self.visible.push(done.effect.visible_id);
                }
                self.effect.media.extend(done.effect.media);
                if self.effect.text.is_none() {
                    self.effect.text = args.text("message").map(str::to_owned);
                }
                Ok(done.response)
            }
            Err(error) => {
                self.errors.push(
                    json!({ "method": method, "error_code": error.code, "error_msg": error.message() }),
                );
                Ok(false.into())
            }
        }
    }

    fn enter(&mut self, method: &str, args: &Args, version: Version) -> Result<Done, ApiError> {
        let entry = methods::find(method).filter(|entry| entry.name != "execute");
        let entry = entry.ok_or_else(|| ApiError::plain(3))?;
        methods::admit(entry, self.ctx.caller)?;
        (entry.run)(&mut Ctx {
            core: self.ctx.core,
            state: self.ctx.state,
            shared: self.ctx.shared,
            caller: self.ctx.caller,
            args,
            version,
            now_ms: self.ctx.now_ms,
        })
    }
}

/// `API.wall.post` as `wall.post`.
fn method_name(function: &Expression) -> Option<String> {
    match function {
        Expression::Member(inner, name) => match inner.as_ref() {
            Expression::Name(root) if root == "API" => Some(name.clone()),
            inner => Some(format!("{}.{name}", method_name(inner)?)),
        },
        _ => None,
    }
}

fn member(value: &Value, name: &str) -> Value {
    match (value, name) {
        (Value::Array(list), "length") => list.len().into(),
        (Value::String(own), "length") => own.chars().count().into(),
        (Value::Object(object), _) => object.get(name).cloned().unwrap_or_default(),
        _ => Value::Null,
    }
}

fn range(values: &[Value], length: usize) -> std::ops::Range<usize> {
    let bound = |value: i64| {
        if value < 0 { (length as i64 + value).max(0) } else { value }.min(length as i64) as usize
    };
    let start = bound(integer(values.first()));
    let end = values.get(1).map_or(length, |end| bound(integer(Some(end))));
    start..end.max(start)
}

fn truth(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(own) => !own.is_empty(),
        Value::Array(_) | Value::Object(_) => true,
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(own) => own.clone(),
        Value::Null => String::new(),
        Value::Array(list) => list.iter().map(text).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

/// A value as a parameter of a call: lists joined by commas, flags as 1 and 0.
fn parameter(value: &Value) -> String {
    match value {
        Value::Bool(flag) => i64::from(*flag).to_string(),
        Value::Array(list) if list.iter().any(Value::is_object) => value.to_string(),
        other => text(other),
    }
}

fn integer(value: Option<&Value>) -> i64 {
    let Some(value) = value else { return 0 };
    match value {
        Value::Number(number) => number.as_i64().unwrap_or_else(|| number.as_f64().unwrap_or(0.0) as i64),
        other => text(other).trim().parse().unwrap_or(0),
    }
}

fn float(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::Bool(flag) => Some(f64::from(u8::from(*flag))),
        Value::Null => Some(0.0),
        Value::String(own) => own.trim().parse().ok(),
        _ => None,
    }
}

fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::String(a), Value::String(b)) => a == b,
        (Value::Number(_) | Value::Bool(_), _) | (_, Value::Number(_) | Value::Bool(_))
            if !left.is_null() && !right.is_null() =>
        {
            matches!((float(left), float(right)), (Some(a), Some(b)) if a == b)
        }
        _ => left == right,
    }
}

fn compared(sign: &str, left: &Value, right: &Value) -> bool {
    let order = match (left, right) {
        (Value::String(a), Value::String(b)) => a.partial_cmp(b),
        _ => float(left).zip(float(right)).and_then(|(a, b)| a.partial_cmp(&b)),
    };
    order.is_some_and(|order| match sign {
        "<" => order.is_lt(),
        ">" => order.is_gt(),
        "<=" => order.is_le(),
        _ => order.is_ge(),
    })
}

fn calculated(sign: &str, left: &Value, right: &Value) -> Value {
    if sign == "+" {
        match (left, right) {
            (Value::Array(a), Value::Array(b)) => return [a.as_slice(), b.as_slice()].concat().into(),
            (Value::String(_), _) | (_, Value::String(_)) => {
                return format!("{}{}", text(left), text(right)).into();
            }
            _ => {}
        }
    }
    if let (Some(a), Some(b)) = (left.as_i64(), right.as_i64()) {
        let whole = match sign {
            "+" => a.checked_add(b),
            "-" => a.checked_sub(b),
            "*" => a.checked_mul(b),
            "%" => a.checked_rem(b),
            _ => a.checked_rem(b).filter(|rest| *rest == 0).and(a.checked_div(b)),
        };
        if let Some(whole) = whole {
            return whole.into();
        }
    }
    let (a, b) = (float(left).unwrap_or(0.0), float(right).unwrap_or(0.0));
    let number = match sign {
        "+" => a + b,
        "-" => a - b,
        "*" => a * b,
        "%" => a % b,
        _ => a / b,
    };
    serde_json::Number::from_f64(number).map_or(Value::Null, Value::Number)
}
