//! VKScript, the small language of `execute`: text in, tree out. It looks like JavaScript and is much less.
//! Knows nothing of VK's methods; `execute` runs the tree.

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Statement {
    Let(Vec<(String, Option<Expression>)>),
    Assign(Expression, Expression),
    If(Expression, Box<Statement>, Option<Box<Statement>>),
    While(Expression, Box<Statement>),
    DoWhile(Box<Statement>, Expression),
    Block(Vec<Statement>),
    Return(Option<Expression>),
    Delete(Expression),
    Do(Expression),
}

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expression {
    Null,
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text(String),
    Array(Vec<Expression>),
    Object(Vec<(String, Expression)>),
    Name(String),
    Member(Box<Expression>, String),
    Index(Box<Expression>, Box<Expression>),
    /// `list@.field`: that field of every element.
    Each(Box<Expression>, String),
    Call(Box<Expression>, Vec<Expression>),
    Not(Box<Expression>),
    Negative(Box<Expression>),
    Binary(&'static str, Box<Expression>, Box<Expression>),
    /// `test ? then : otherwise`
    Choice(Box<Expression>, Box<Expression>, Box<Expression>),
}

/// Deeper nesting than this is not compiled.
const DEPTH_MAX: usize = 64;

/// Compiles a script; the error says what was in the way.
pub(super) fn compile(code: &str) -> Result<Vec<Statement>, String> {
    let tokens = tokens(code)?;
    let mut parser = Parser { tokens, at: 0, depth: 0 };
    let mut program = Vec::new();
    while parser.at < parser.tokens.len() {
        if parser.take(";") {
            continue;
        }
        program.push(parser.statement()?);
    }
    Ok(program)
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Name(String),
    Text(String),
    Integer(i64),
    Float(f64),
    Sign(&'static str),
}

/// Longest first, so that `==` is not read as two.
const SIGNS: &[&str] = &[
    "===", "!==", "==", "!=", "<=", ">=", "&&", "||", "@.", "+", "-", "*", "/", "%", "<", ">", "!", "=", "(",
    ")", "[", "]", "{", "}", ",", ";", ":", ".", "?",
];

fn tokens(code: &str) -> Result<Vec<Token>, String> {
    let mut found = Vec::new();
    let mut rest = code;
    loop {
        rest = rest.trim_start();
        if let Some(comment) = rest.strip_prefix("//") {
            rest = comment.split_once('\n').map_or("", |(_, after)| after);
            continue;
        }
        if let Some(comment) = rest.strip_prefix("/*") {
            rest = comment.split_once("*/").ok_or("a comment is not closed")?.1;
            continue;
        }
        let Some(first) = rest.chars().next() else { return Ok(found) };
        if first == '"' || first == '\'' {
            let (text, after) = quoted(&rest[1..], first)?;
            found.push(Token::Text(text));
            rest = after;
        } else if first.is_ascii_digit() {
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            found.push(number(&rest[..end])?);
            rest = &rest[end..];
        } else if first.is_alphabetic() || first == '_' || first == '$' {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '$').unwrap_or(rest.len());
            found.push(Token::Name(rest[..end].to_owned()));
            rest = &rest[end..];
        } else if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            found.push(Token::Sign(sign));
            rest = &rest[sign.len()..];
        } else {
            return Err(format!("unexpected symbol {first:?}"));
        }
    }
}

fn number(text: &str) -> Result<Token, String> {
    if let Ok(whole) = text.parse() {
        return Ok(Token::Integer(whole));
    }
    text.parse().map(Token::Float).map_err(|_| format!("{text:?} is not a number"))
}

fn quoted(rest: &str, quote: char) -> Result<(String, &str), String> {
    let mut text = String::new();
    let mut characters = rest.char_indices();
    while let Some((at, character)) = characters.next() {
        if character == quote {
            return Ok((text, &rest[at + character.len_utf8()..]));
        }
        if character != '\\' {
            text.push(character);
            continue;
        }
        match characters.next().map(|(_, escaped)| escaped) {
            Some('n') => text.push('\n'),
            Some('t') => text.push('\t'),
            Some('r') => text.push('\r'),
            Some('b') => text.push('\u{8}'),
            Some('f') => text.push('\u{c}'),
            Some('u') => text.push(escaped_unit(&mut characters)?),
            Some(other) => text.push(other),
            None => break,
        }
    }
    Err("a string is not closed".to_owned())
}

/// `\uXXXX`, with both halves of a surrogate pair.
fn escaped_unit(characters: &mut std::str::CharIndices<'_>) -> Result<char, String> {
    let mut unit = || {
        let digits: String = characters.by_ref().take(4).map(|(_, digit)| digit).collect();
        u16::from_str_radix(&digits, 16).map_err(|_| "a \\u escape needs four hex digits".to_owned())
    };
    let first = unit()?;
    if !(0xd800..0xdc00).contains(&first) {
        return Ok(char::from_u32(u32::from(first)).unwrap_or('\u{fffd}'));
    }
    let mut ahead = characters.clone();
    if ahead.next().map(|(_, c)| c) != Some('\\') || ahead.next().map(|(_, c)| c) != Some('u') {
        return Ok('\u{fffd}');
    }
    *characters = ahead;
    let digits: String = characters.by_ref().take(4).map(|(_, digit)| digit).collect();
    let second =
        u16::from_str_radix(&digits, 16).map_err(|_| "a \\u escape needs four hex digits".to_owned())?;
    Ok(char::decode_utf16([first, second]).next().and_then(Result::ok).unwrap_or('\u{fffd}'))
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
}

/// Binary operators from the loosest to the tightest.
const LEVELS: &[&[&str]] =
    &[&["||"], &["&&"], &["===", "!==", "==", "!="], &["<=", ">=", "<", ">"], &["+", "-"], &["*", "/", "%"]];

impl Parser {
    fn statement(&mut self) -> Result<Statement, String> {
        self.deeper(Parser::statement_inside)
    }

    fn statement_inside(&mut self) -> Result<Statement, String> {
        if self.take("{") {
            return self.block();
        }
        match self.word() {
            Some("var") => self.declaration(),
            Some("if") => self.condition(),
            Some("while") => {
                self.at += 1;
                let test = self.bracketed()?;
                Ok(Statement::While(test, Box::new(self.statement()?)))
            }
            Some("do") => {
                self.at += 1;
                let body = self.statement()?;
                if self.word() != Some("while") {
                    return Err(self.unexpected());
                }
                self.at += 1;
                let test = self.bracketed()?;
                self.take(";");
                Ok(Statement::DoWhile(Box::new(body), test))
            }
            Some("return") => {
                self.at += 1;
                let value = if self.peek(";") || self.at == self.tokens.len() {
                    None
                } else {
                    Some(self.expression()?)
                };
                self.end()?;
                Ok(Statement::Return(value))
            }
            Some("delete") => {
                self.at += 1;
                let place = self.expression()?;
                self.end()?;
                Ok(Statement::Delete(place))
            }
            _ => {
                let left = self.expression()?;
                let statement = match self.take("=") {
                    true => Statement::Assign(left, self.expression()?),
                    false => Statement::Do(left),
                };
                self.end()?;
                Ok(statement)
            }
        }
    }

    fn block(&mut self) -> Result<Statement, String> {
        let mut body = Vec::new();
        while !self.take("}") {
            if self.at == self.tokens.len() {
                return Err("a block is not closed".to_owned());
            }
            if !self.take(";") {
                body.push(self.statement()?);
            }
        }
        Ok(Statement::Block(body))
    }

    fn declaration(&mut self) -> Result<Statement, String> {
        self.at += 1;
        let mut names = Vec::new();
        loop {
            let name = self.name()?;
            let value = if self.take("=") { Some(self.expression()?) } else { None };
            names.push((name, value));
            if !self.take(",") {
                self.end()?;
                return Ok(Statement::Let(names));
            }
        }
    }

    fn condition(&mut self) -> Result<Statement, String> {
        self.at += 1;
        let test = self.bracketed()?;
        let then = Box::new(self.statement()?);
        let otherwise = if self.word() == Some("else") {
            self.at += 1;
            Some(Box::new(self.statement()?))
        } else {
            None
        };
        Ok(Statement::If(test, then, otherwise))
    }

    fn bracketed(&mut self) -> Result<Expression, String> {
        self.expect("(")?;
        let inner = self.expression()?;
        self.expect(")")?;
        Ok(inner)
    }

    /// A semicolon; the last one of a block or script may be missing.
    fn end(&mut self) -> Result<(), String> {
        if self.take(";") || self.at == self.tokens.len() || self.peek("}") {
            return Ok(());
        }
        Err(self.unexpected())
    }

    fn expression(&mut self) -> Result<Expression, String> {
        self.deeper(|parser| {
            let test = parser.binary(0)?;
            if !parser.take("?") {
                return Ok(test);
            }
            let then = parser.expression()?;
            parser.expect(":")?;
            let otherwise = parser.expression()?;
            Ok(Expression::Choice(Box::new(test), Box::new(then), Box::new(otherwise)))
        })
    }

    fn binary(&mut self, level: usize) -> Result<Expression, String> {
        let Some(signs) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        while let Some(sign) = signs.iter().copied().find(|sign| self.take(sign)) {
            let sign = match sign {
                "===" => "==",
                "!==" => "!=",
                other => other,
            };
            left = Expression::Binary(sign, Box::new(left), Box::new(self.binary(level + 1)?));
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Expression, String> {
        if self.take("!") {
            return Ok(Expression::Not(Box::new(self.deeper(Parser::unary)?)));
        }
        if self.take("-") {
            return Ok(Expression::Negative(Box::new(self.deeper(Parser::unary)?)));
        }
        if self.take("+") {
            return self.deeper(Parser::unary);
        }
        let mut left = self.atom()?;
        loop {
            if self.take(".") {
                left = Expression::Member(Box::new(left), self.name()?);
            } else if self.take("@.") {
                left = Expression::Each(Box::new(left), self.name()?);
            } else if self.take("[") {
                let index = self.expression()?;
                self.expect("]")?;
                left = Expression::Index(Box::new(left), Box::new(index));
            } else if self.take("(") {
                left = Expression::Call(Box::new(left), self.list(")")?);
            } else {
                return Ok(left);
            }
        }
    }

    fn atom(&mut self) -> Result<Expression, String> {
        if self.take("(") {
            let inner = self.expression()?;
            self.expect(")")?;
            return Ok(inner);
        }
        if self.take("[") {
            return Ok(Expression::Array(self.list("]")?));
        }
        if self.take("{") {
            return self.object();
        }
        let token = self.tokens.get(self.at).cloned();
        let atom = match token {
            Some(Token::Text(text)) => Expression::Text(text),
            Some(Token::Integer(number)) => Expression::Integer(number),
            Some(Token::Float(number)) => Expression::Float(number),
            Some(Token::Name(name)) => match name.as_str() {
                "null" | "undefined" => Expression::Null,
                "true" => Expression::Bool(true),
                "false" => Expression::Bool(false),
                _ => Expression::Name(name),
            },
            _ => return Err(self.unexpected()),
        };
        self.at += 1;
        Ok(atom)
    }

    fn list(&mut self, close: &str) -> Result<Vec<Expression>, String> {
        let mut items = Vec::new();
        while !self.take(close) {
            items.push(self.expression()?);
            if !self.take(",") && !self.peek(close) {
                return Err(self.unexpected());
            }
        }
        Ok(items)
    }

    fn object(&mut self) -> Result<Expression, String> {
        let mut fields = Vec::new();
        while !self.take("}") {
            let key = match self.tokens.get(self.at) {
                Some(Token::Name(name) | Token::Text(name)) => name.clone(),
                Some(Token::Integer(number)) => number.to_string(),
                _ => return Err(self.unexpected()),
            };
            self.at += 1;
            self.expect(":")?;
            fields.push((key, self.expression()?));
            if !self.take(",") && !self.peek("}") {
                return Err(self.unexpected());
            }
        }
        Ok(Expression::Object(fields))
    }

    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Parser) -> Result<T, String>) -> Result<T, String> {
        if self.depth >= DEPTH_MAX {
            return Err("the code is nested too deeply".to_owned());
        }
        self.depth += 1;
        let result = parse(self);
        self.depth -= 1;
        result
    }

    fn word(&self) -> Option<&str> {
        match self.tokens.get(self.at) {
            Some(Token::Name(name)) => Some(name),
            _ => None,
        }
    }

    fn name(&mut self) -> Result<String, String> {
        let name = self.word().map(str::to_owned).ok_or_else(|| self.unexpected())?;
        self.at += 1;
        Ok(name)
    }

    fn peek(&self, sign: &str) -> bool {
        matches!(self.tokens.get(self.at), Some(Token::Sign(own)) if *own == sign)
    }

    fn take(&mut self, sign: &str) -> bool {
        let found = self.peek(sign);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, sign: &str) -> Result<(), String> {
        if self.take(sign) { Ok(()) } else { Err(self.unexpected()) }
    }

    fn unexpected(&self) -> String {
        match self.tokens.get(self.at) {
            Some(Token::Name(name)) => format!("syntax error, unexpected T_STRING {name:?}"),
            Some(Token::Text(_)) => "syntax error, unexpected string".to_owned(),
            Some(Token::Integer(_) | Token::Float(_)) => "syntax error, unexpected number".to_owned(),
            Some(Token::Sign(sign)) => format!("syntax error, unexpected '{sign}'"),
            None => "syntax error, unexpected $end".to_owned(),
        }
    }
}
