//! VK walls as a source: how they are named, and what a refusal to read one means.

use std::time::Duration;

use domain::outcome::Failure;
use futures_util::future::BoxFuture;

use super::Vk;
use super::read::{self, PAGE_MAX};
use crate::platform::{Account, Network};
use crate::walls::{Page, Place, RawPost, Wall, WallReader};

impl WallReader for Vk {
    /// `-123`, `club123`, `public123`, `id5`, `name`, `@name`, or the address of any of them or of a post there.
    fn wall(&self, address: &str) -> Option<Wall> {
        let name = address.trim().trim_end_matches('/');
        let name = name.rsplit_once("vk.com/").or_else(|| name.rsplit_once("vk.ru/"));
        let name = name.map_or(address.trim().trim_end_matches('/'), |(_, name)| name);
        // An open post stands behind the name of the page that it was opened on.
        let name = name.split_once("?w=").map_or(name, |(_, post)| post);
        let name = name.split_once('?').map_or(name, |(name, _)| name).trim_start_matches('@');
        let of_post = |name: &str| name.strip_prefix("wall")?.split('_').next()?.parse::<i64>().ok();
        if let Some(id) = of_post(name) {
            return (id != 0).then_some(Wall::Owner(id));
        }
        let number = |prefix: &str| name.strip_prefix(prefix)?.parse::<i64>().ok();
        if let Ok(id) = name.parse::<i64>() {
            return (id != 0).then_some(Wall::Owner(id));
        }
        for prefix in ["club", "public", "event"] {
            if let Some(id) = number(prefix) {
                return Some(Wall::Owner(-id));
            }
        }
        if let Some(id) = number("id") {
            return Some(Wall::Owner(id));
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        (!name.is_empty() && name.chars().all(plain)).then(|| Wall::Name(name.to_owned()))
    }

    fn page_max(&self) -> u32 {
        PAGE_MAX
    }

    fn page<'a>(
        &'a self,
        network: &'a Network,
        account: &'a Account,
        wall: &'a Wall,
        place: Place,
    ) -> BoxFuture<'a, Result<Page, Failure>> {
        Box::pin(read::wall_page(network, account, wall, place.offset, place.count, place.deadline))
    }

    fn posts<'a>(
        &'a self,
        network: &'a Network,
        account: &'a Account,
        ids: &'a [(i64, i64)],
        deadline: Duration,
    ) -> BoxFuture<'a, Result<Vec<RawPost>, Failure>> {
        Box::pin(read::posts_by_id(network, account, ids, deadline))
    }

    fn post_page(&self, owner_id: i64, post_id: i64) -> String {
        format!("https://vk.com/wall{owner_id}_{post_id}")
    }

    fn photo_page(&self, id: &str) -> String {
        format!("https://vk.com/{id}")
    }

    /// `https://vk.com/wall-1_2`, `https://vk.com/club1?w=wall-1_2`, `wall-1_2`.
    fn post_named(&self, text: &str) -> Option<(i64, i64)> {
        let is_ours = text.starts_with("wall") || text.contains("vk.com/") || text.contains("vk.ru/");
        let (_, place) = text.rsplit_once("wall").filter(|_| is_ours)?;
        let belongs = |c: &char| c.is_ascii_digit() || *c == '-' || *c == '_';
        let place: String = place.chars().take_while(belongs).collect();
        let (owner, post) = place.split_once('_')?;
        Some((owner.parse().ok()?, post.parse().ok()?))
    }

    fn remedy(&self, code: &str) -> Option<&'static str> {
        Some(match code {
            "vk:5" | "vk:1117" => "the token is revoked or wrong; set a new one for the account",
            "vk:14" => "VK asks for a captcha; it is asked again later, or use another token",
            code if self.is_closed(code) => {
                "the wall is closed; ask its admins, or read it with a member's token"
            }
            "vk:27" | "vk:28" => "this token cannot read walls; give the source a service or user token",
            "vk:100" | "vk:125" => "there is no such wall; check the address of the source",
            "vk:6" | "vk:9" | "vk:29" => "too many calls; it is asked again later",
            _ => return None,
        })
    }

    fn is_closed(&self, code: &str) -> bool {
        matches!(code, "vk:15" | "vk:18" | "vk:30" | "vk:203")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_is_named_by_id_by_name_or_by_address() {
        for (written, wall) in [
            ("-123", Some(Wall::Owner(-123))),
            ("https://vk.com/club7/", Some(Wall::Owner(-7))),
            ("id5", Some(Wall::Owner(5))),
            ("https://vk.com/wall-101", Some(Wall::Owner(-101))),
            ("https://vk.com/wall-101_5?reply=7", Some(Wall::Owner(-101))),
            ("https://vk.com/lost_pets?w=wall-101_5", Some(Wall::Owner(-101))),
            ("https://m.vk.ru/lost_pets?from=search", Some(Wall::Name("lost_pets".into()))),
            ("wallpapers", Some(Wall::Name("wallpapers".into()))),
            ("@poteryashki", Some(Wall::Name("poteryashki".into()))),
            ("0", None),
            ("потеряшки", None),
        ] {
            assert_eq!(Vk.wall(written), wall, "{written}");
        }
    }

    #[test]
    fn a_post_is_named_by_its_address() {
        for text in ["https://vk.com/wall-101_1", "https://vk.com/club101?w=wall-101_1", "wall-101_1"] {
            assert_eq!(crate::walls::post_named(text), Some((super::super::NAME, -101, 1)), "{text}");
        }
        assert_eq!(crate::walls::post_named("https://example.org/wallpaper_1"), None);
    }
}
