//! What a dry run of a campaign says.

use domain::time::{Span, Timestamp};
use engine::campaigns::life;
use serde_json::{Value, json};
use store::Campaign;

use super::operator::Look;
use crate::operate::words::how_long;

pub(super) async fn forecast(look: &Look, campaign: &Campaign) -> anyhow::Result<(Value, String)> {
    let (preview, forecast) = life::preview(&look.store, campaign).await?;
    let now = look.store.now().await?;
    let in_seconds = |at: Timestamp| (at - now).millis() as f64 / 1e3;
    let seconds = forecast.map(|forecast| in_seconds(forecast.expected_at.unwrap_or(forecast.best_at)));
    let stars = life::most_stars(&look.store, campaign, &preview).await?;
    let value = json!({
        "audience": preview.total(),
        "excluded": preview.excluded,
        "samples": preview.samples,
        "duration_s": seconds,
        "forecast": forecast,
        "stars": stars,
    });
    let mut text = format!("{} people get it", preview.total());
    if let Some(seconds) = seconds {
        text += &format!(", in about {}", how_long(Span((seconds * 1e6) as i64)));
    }
    if let Some(stars) = stars {
        text += &format!("\n  it may cost up to {stars} Stars");
    }
    if let Some(late) = forecast.map(|forecast| forecast.late).filter(|late| *late > 0) {
        text += &format!("\n  {late} of them would miss the deadline");
    }
    for (reason, n) in &preview.excluded {
        text += &format!("\n  {n} do not: {}", reason.replace('_', " "));
    }
    for sample in &preview.samples {
        text += "\n";
        for line in sample.lines() {
            text += &format!("\n  │ {line}");
        }
    }
    Ok((value, text))
}
