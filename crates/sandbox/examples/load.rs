//! How fast the sandbox is, and whether its memory stays flat: `cargo run --release -p sandbox --example load`.
//! Eight keep-alive connections send `sendMessage` with HTML; client and server share the machine's cores.
//! Prints one JSON object. Arguments: messages per round (default 60000), rounds (5), ledger rows (50000).

use std::io::Write;
use std::time::Instant;

use sandbox::{Name, Options, Sandbox};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const CONNECTIONS: usize = 8;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let numbers: Vec<usize> = std::env::args().skip(1).map(|text| text.parse()).collect::<Result<_, _>>()?;
    let number = |i: usize, default| numbers.get(i).copied().unwrap_or(default);
    let (per_round, rounds, rows) = (number(0, 60_000), number(1, 5), number(2, 50_000));
    let runtime = tokio::runtime::Runtime::new()?;
    let report = runtime.block_on(measure(per_round, rounds, rows))?;
    writeln!(std::io::stdout(), "{report:#}")?;
    Ok(())
}

async fn measure(
    per_round: usize,
    rounds: usize,
    rows: usize,
) -> Result<serde_json::Value, Box<dyn std::error::Error>> {
    let options = Options { any_token: true, ledger_max: rows, messages_max: rows, ..Options::default() };
    let sandbox = Sandbox::start(options).await?;
    let mut figures = Vec::new();
    for _ in 0..rounds {
        let started = Instant::now();
        let workers = (0..CONNECTIONS).map(|i| worker(sandbox.address(), i, per_round / CONNECTIONS));
        for result in futures_util::future::join_all(workers).await {
            result?;
        }
        let seconds = started.elapsed().as_secs_f64();
        let rate = (per_round as f64 / seconds).round();
        figures.push(json!({ "messages_per_second": rate, "rss_kb": rss_kb() }));
    }
    let received = sandbox.core().ledger.received(Name::Telegram);
    let kept = sandbox.core().ledger.kept(Name::Telegram);
    sandbox.shutdown().await;
    Ok(json!({ "connections": CONNECTIONS, "requests": received, "ledger_rows": kept, "rounds": figures }))
}

/// Sends one message after the other on one connection and reads each answer to its end.
async fn worker(address: std::net::SocketAddr, number: usize, n_messages: usize) -> std::io::Result<()> {
    let mut socket = TcpStream::connect(address).await?;
    socket.set_nodelay(true)?;
    let mut buffer = vec![0; 16 << 10];
    for i in 0..n_messages {
        let chat = (i * CONNECTIONS + number) % 5_000 + 1;
        let text = format!("<b>Пропала собака</b>, <i>рыжая</i>, район вокзала &amp; парка, номер {i}");
        let body = json!({ "chat_id": chat, "text": text, "parse_mode": "HTML" }).to_string();
        let request = format!(
            "POST /telegram/bot1:token/sendMessage HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        socket.write_all(request.as_bytes()).await?;
        read_answer(&mut socket, &mut buffer).await?;
    }
    Ok(())
}

async fn read_answer(socket: &mut TcpStream, buffer: &mut [u8]) -> std::io::Result<()> {
    let mut filled = 0;
    loop {
        let n = socket.read(&mut buffer[filled..]).await?;
        if n == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        filled += n;
        let text = String::from_utf8_lossy(&buffer[..filled]);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        if !head.starts_with("HTTP/1.1 200") {
            return Err(std::io::Error::other(text.into_owned()));
        }
        let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
        if length.and_then(|length| length.parse().ok()) == Some(body.len()) {
            return Ok(());
        }
    }
}

/// Resident memory, where the system tells it.
fn rss_kb() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
