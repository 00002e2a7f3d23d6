//! A request as a platform sees it, and the ways in which parameters can be written into it.
//! Parsing is lenient where the platforms are: what cannot be read is simply not there.

use std::borrow::Cow;
use std::io::Read;

use axum::http::{HeaderMap, Method, header};
use bytes::Bytes;
use memchr::memmem;

/// Everything known before the body is read.
#[derive(Clone, Debug)]
pub struct Head {
    pub method: Method,
    /// The path below the platform's prefix, percent-encoded as sent: `/bot1:a/sendMessage`.
    pub path: String,
    /// The query string without the question mark.
    pub query: String,
    pub headers: HeaderMap,
}

impl Head {
    /// A header as text; absent or unreadable is empty.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The media type of the body, lower case, without its parameters.
    pub fn content_type(&self) -> String {
        let value = self.header(header::CONTENT_TYPE.as_str());
        value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }

    /// One parameter of the query string.
    pub fn query_value(&self, name: &str) -> Option<String> {
        pairs(self.query.as_bytes()).into_iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }
}

/// The body, unless it was larger than the platform's `BODY_BYTES_MAX`.
#[derive(Clone, Debug)]
pub enum Body {
    Whole(Bytes),
    TooLarge,
}

/// A whole request.
#[derive(Clone, Debug)]
pub struct Request {
    pub head: Head,
    pub body: Body,
}

impl Request {
    /// The body with its content encoding undone; too large or unreadable is empty.
    pub fn bytes(&self) -> Bytes {
        match &self.body {
            Body::TooLarge => Bytes::new(),
            Body::Whole(bytes) => decoded(self.head.header("content-encoding"), bytes),
        }
    }

    /// Parameters of the query string, then of a form or multipart body, in the order they came.
    pub fn parameters(&self) -> Parameters {
        let mut parameters = Parameters::default();
        parameters.texts.extend(pairs(self.head.query.as_bytes()));
        let bytes = self.bytes();
        match self.head.content_type().as_str() {
            "application/x-www-form-urlencoded" => parameters.texts.extend(pairs(&bytes)),
            "multipart/form-data" => {
                if let Some(boundary) = boundary(self.head.header("content-type")) {
                    parameters.read_multipart(&bytes, &boundary);
                }
            }
            _ => {}
        }
        parameters
    }
}

/// One uploaded file.
#[derive(Clone, Debug)]
pub struct Upload {
    pub field: String,
    pub file_name: String,
    pub content_type: String,
    pub bytes: Bytes,
}

/// Text parameters and uploaded files of one request.
#[derive(Clone, Debug, Default)]
pub struct Parameters {
    pub texts: Vec<(String, String)>,
    pub files: Vec<Upload>,
}

impl Parameters {
    /// The last value given for `name`: a body overrides the query string.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.texts.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub fn file(&self, field: &str) -> Option<&Upload> {
        self.files.iter().find(|upload| upload.field == field)
    }

    fn read_multipart(&mut self, body: &Bytes, boundary: &str) {
        let delimiter = format!("--{boundary}");
        // A delimiter stands at the start of a line and fills it, so a file may hold its letters elsewhere.
        let stands_alone = |at: &usize| {
            let after = &body[at + delimiter.len()..];
            (*at == 0 || body[..*at].ends_with(b"\r\n"))
                && (after.starts_with(b"\r\n") || after.starts_with(b"--"))
        };
        let starts: Vec<usize> = memmem::find_iter(body, delimiter.as_bytes()).filter(stands_alone).collect();
        for pair in starts.windows(2) {
            let from = pair[0] + delimiter.len();
            // Each part ends with the line break that belongs to the next delimiter.
            let part = body.slice(from..pair[1].saturating_sub(2).max(from));
            self.read_part(&part);
        }
    }

    fn read_part(&mut self, part: &Bytes) {
        let Some(head_end) = memmem::find(part, b"\r\n\r\n") else { return };
        let content = part.slice(head_end + 4..);
        let head = String::from_utf8_lossy(&part[..head_end]).into_owned();
        let disposition = part_header(&head, "content-disposition");
        let Some(field) = attribute(disposition, "name") else { return };
        let content_type = part_header(&head, "content-type").to_owned();
        match attribute(disposition, "filename") {
            Some(file_name) => self.files.push(Upload { field, file_name, content_type, bytes: content }),
            None => self.texts.push((field, String::from_utf8_lossy(&content).into_owned())),
        }
    }
}

/// Undoes gzip and deflate; the result is limited so that a bomb cannot fill the memory.
fn decoded(encoding: &str, bytes: &Bytes) -> Bytes {
    const DECODED_BYTES_MAX: u64 = 64 << 20;
    let mut plain = Vec::new();
    let read = match encoding.trim() {
        "gzip" => flate2::read::GzDecoder::new(&bytes[..]).take(DECODED_BYTES_MAX).read_to_end(&mut plain),
        "deflate" => {
            flate2::read::ZlibDecoder::new(&bytes[..]).take(DECODED_BYTES_MAX).read_to_end(&mut plain)
        }
        _ => return bytes.clone(),
    };
    if read.is_ok() { Bytes::from(plain) } else { Bytes::new() }
}

/// Name and value pairs of a query string or a form body.
pub fn pairs(encoded: &[u8]) -> Vec<(String, String)> {
    url::form_urlencoded::parse(encoded).map(|(key, value)| (key.into_owned(), value.into_owned())).collect()
}

/// Undoes percent encoding of a path segment.
pub fn percent_decoded(segment: &str) -> Cow<'_, str> {
    if !segment.contains('%') {
        return Cow::Borrowed(segment);
    }
    // A plus sign is an ordinary character in a path, so it is protected from the form decoder.
    let protected = segment.replace('+', "%2B").replace('&', "%26").replace('=', "%3D");
    url::form_urlencoded::parse(protected.as_bytes())
        .next()
        .map_or(Cow::Borrowed(segment), |(key, _)| Cow::Owned(key.into_owned()))
}

fn boundary(content_type: &str) -> Option<String> {
    attribute(content_type, "boundary").filter(|boundary| (1..=70).contains(&boundary.len()))
}

fn part_header<'a>(head: &'a str, name: &str) -> &'a str {
    let lines = head.split("\r\n").filter_map(|line| line.split_once(':'));
    lines
        .filter(|(key, _)| key.trim().eq_ignore_ascii_case(name))
        .map(|(_, value)| value.trim())
        .next()
        .unwrap_or("")
}

/// One `name=value` or `name="value"` attribute of a header, `name*=UTF-8''value` included.
fn attribute(header: &str, name: &str) -> Option<String> {
    let mut rest = header;
    while let Some(start) = rest.find(';') {
        rest = rest[start + 1..].trim_start();
        let Some((key, value)) = rest.split_once('=') else { break };
        if let Some(quoted) = value.strip_prefix('"') {
            let end = closing_quote(quoted);
            if key.trim().eq_ignore_ascii_case(name) {
                return Some(quoted[..end].replace("\\\"", "\"").replace("%22", "\""));
            }
            rest = &quoted[end..];
        } else {
            let end = value.find(';').unwrap_or(value.len());
            if key.trim().eq_ignore_ascii_case(name) {
                return Some(value[..end].trim().to_owned());
            }
            if key.trim().trim_end_matches('*').eq_ignore_ascii_case(name) {
                let encoded = value[..end].trim().rsplit('\'').next().unwrap_or_default();
                return Some(percent_decoded(encoded).into_owned());
            }
            rest = &value[end..];
        }
    }
    None
}

fn closing_quote(text: &str) -> usize {
    let bytes = text.as_bytes();
    (0..bytes.len()).find(|&i| bytes[i] == b'"' && (i == 0 || bytes[i - 1] != b'\\')).unwrap_or(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn multipart(body: &str, boundary: &str) -> Parameters {
        let mut parameters = Parameters::default();
        parameters.read_multipart(&Bytes::copy_from_slice(body.as_bytes()), boundary);
        parameters
    }

    #[test]
    fn multipart_parts_become_texts_and_files() {
        let body = "--B\r\nContent-Disposition: form-data; name=\"text\"\r\n\r\nпривет\r\n\
                    --B\r\ncontent-disposition: form-data; name=\"f\"; filename=\"a \\\"b\\\".txt\"\r\nContent-Type: text/plain\r\n\r\n\
                    one --B two\r\n--Bx\r\n\r\n--B--\r\n";
        let parameters = multipart(body, "B");
        assert_eq!(parameters.text("text"), Some("привет"));
        let file = parameters.file("f").expect("the file");
        assert_eq!((file.file_name.as_str(), file.content_type.as_str()), ("a \"b\".txt", "text/plain"));
        assert_eq!(&file.bytes[..], b"one --B two\r\n--Bx\r\n");
    }

    #[test]
    fn file_names_may_be_written_in_the_extended_form() {
        let body = "--B\r\nContent-Disposition: form-data; name=f; filename*=UTF-8''%D0%BA%D0%BE%D1%82.jpg\r\n\r\nx\r\n--B--";
        assert_eq!(multipart(body, "B").file("f").map(|file| file.file_name.as_str()), Some("кот.jpg"));
    }

    #[test]
    fn broken_multipart_bodies_are_empty() {
        for body in ["", "--B", "--B\r\n", "--B--", "--B\r\n\r\n--B--", "no border at all"] {
            let parameters = multipart(body, "B");
            assert!(parameters.texts.is_empty() && parameters.files.is_empty(), "{body:?}");
        }
    }

    #[test]
    fn percent_encoding_of_a_path_keeps_plus_signs() {
        assert_eq!(percent_decoded("a%3Ab+c%20d&e=f"), "a:b+c d&e=f");
    }
}
