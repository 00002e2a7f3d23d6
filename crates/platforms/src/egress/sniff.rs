//! What a file really is, by its first bytes. The name and the declared type of a foreign file prove nothing.

/// The kinds of file that are accepted from foreign addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MediaType {
    Jpeg,
    Png,
    Gif,
    Webp,
    Mp4,
    Webm,
    Pdf,
}

impl MediaType {
    pub fn mime(self) -> &'static str {
        match self {
            MediaType::Jpeg => "image/jpeg",
            MediaType::Png => "image/png",
            MediaType::Gif => "image/gif",
            MediaType::Webp => "image/webp",
            MediaType::Mp4 => "video/mp4",
            MediaType::Webm => "video/webm",
            MediaType::Pdf => "application/pdf",
        }
    }

    /// VK refuses an upload whose file name has no extension.
    pub fn extension(self) -> &'static str {
        match self {
            MediaType::Jpeg => "jpg",
            MediaType::Png => "png",
            MediaType::Gif => "gif",
            MediaType::Webp => "webp",
            MediaType::Mp4 => "mp4",
            MediaType::Webm => "webm",
            MediaType::Pdf => "pdf",
        }
    }
}

/// Looks at the first bytes; `None` is anything that is not on the list, HTML pages above all.
pub fn sniff(bytes: &[u8]) -> Option<MediaType> {
    let at = |from: usize, magic: &[u8]| bytes.get(from..).is_some_and(|rest| rest.starts_with(magic));
    if at(0, b"\xff\xd8\xff") {
        Some(MediaType::Jpeg)
    } else if at(0, b"\x89PNG\r\n\x1a\n") {
        Some(MediaType::Png)
    } else if at(0, b"GIF87a") || at(0, b"GIF89a") {
        Some(MediaType::Gif)
    } else if at(0, b"RIFF") && at(8, b"WEBP") {
        Some(MediaType::Webp)
    } else if at(4, b"ftyp") {
        Some(MediaType::Mp4)
    } else if at(0, b"\x1a\x45\xdf\xa3") {
        Some(MediaType::Webm)
    } else if at(0, b"%PDF-") {
        Some(MediaType::Pdf)
    } else {
        None
    }
}
