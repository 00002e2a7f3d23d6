//! Contacts: cards, and the signature by which a bot knows that a card came from MAX.

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::visitor::Visitor;

/// The received form of a contact: a card, signed, and the user if it is one.
pub(super) fn received(visitor: &Visitor<'_>, payload: &Map<String, Value>) -> Value {
    let text = |field: &str| payload.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
    let user = payload.get("contact_id").and_then(Value::as_i64).map(|id| visitor.max.people.get(id));
    let name = text("name").map(str::to_owned).or_else(|| user.as_ref().map(|user| user.full_name()));
    let card = text("vcf_info").map_or_else(
        || vcard(name.as_deref().unwrap_or_default(), text("vcf_phone").unwrap_or_default()),
        str::to_owned,
    );
    let mut kept = json!({ "vcf_info": card, "hash": signature(&visitor.account.token, &card) });
    if let Some(user) = user {
        kept["max_info"] = user.json(visitor.now_ms());
    }
    json!({ "type": "contact", "payload": kept })
}

/// A contact card.
pub(super) fn vcard(name: &str, phone: &str) -> String {
    let phone = if phone.is_empty() { String::new() } else { format!("TEL;TYPE=cell:{phone}\r\n") };
    format!("BEGIN:VCARD\r\nVERSION:3.0\r\nFN:{name}\r\n{phone}END:VCARD\r\n")
}

/// HMAC-SHA256 in hexadecimal digits: the key is the token of the bot, the text is the card.
pub(super) fn signature(key: &str, text: &str) -> String {
    let mut block = [0u8; 64];
    let key = key.as_bytes();
    match block.get_mut(..key.len()) {
        Some(start) => start.copy_from_slice(key),
        None => block[..32].copy_from_slice(&Sha256::digest(key)),
    }
    let padded = |pad: u8| block.map(|byte| byte ^ pad);
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(text.as_bytes()).finalize();
    let outer = Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize();
    outer.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contacts_are_signed_as_rfc_4231_says() {
        let signed = signature("Jefe", "what do ya want for nothing?");
        assert_eq!(signed, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        let long_key = "k".repeat(100);
        assert_eq!(signature(&long_key, "x").len(), 64);
    }
}
