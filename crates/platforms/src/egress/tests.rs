use std::collections::HashMap;
use std::sync::Mutex;

use super::*;
use crate::testing::{Act, RawServer, http_with};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n0000";

/// Addresses that must be refused before anything is resolved.
const REFUSED: &[&str] = &[
    // loopback
    "http://127.0.0.1/",
    "http://127.0.0.1:80/",
    "http://127.1/",
    "http://127.0.1/",
    "http://127.255.255.254/",
    "http://0x7f.1/",
    "http://0x7f.0.0.1/",
    "http://0x7f000001/",
    "http://0X7F000001/",
    "http://0177.0.0.1/",
    "http://0177.1/",
    "http://017700000001/",
    "http://2130706433/",
    "http://00000177.0.0.1/",
    "http://127.0.0.1./",
    "http://127.0.0.0x1/",
    "http://%31%32%37.0.0.1/",
    "http://①②⑦.⓪.⓪.①/",
    "http://127。0。0。1/",
    "http://localhost/",
    "http://LOCALHOST/",
    "http://localhost./",
    "http://a.localhost/",
    "http://[::1]/",
    "http://[0:0:0:0:0:0:0:1]/",
    "http://[::0001]/",
    "http://[::127.0.0.1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[0:0:0:0:0:ffff:127.0.0.1]/",
    "http://[0000:0000:0000:0000:0000:ffff:7f00:0001]/",
    // this network
    "http://0/",
    "http://0.0.0.0/",
    "http://0x0/",
    "http://0.1.2.3/",
    "http://[::]/",
    // private
    "http://10.0.0.1/",
    "http://10.1/",
    "http://0xa.0.0.1/",
    "http://012.0.0.1/",
    "http://167772161/",
    "http://172.16.0.1/",
    "http://172.31.255.255/",
    "http://192.168.0.1/",
    "http://192.168.1/",
    "http://3232235521/",
    "http://0xc0a80001/",
    "http://[::ffff:10.0.0.1]/",
    "http://[::ffff:c0a8:1]/",
    // link-local and metadata
    "http://169.254.169.254/latest/meta-data/",
    "http://0xa9fea9fe/",
    "http://2852039166/",
    "http://0251.0376.0251.0376/",
    "http://[::ffff:169.254.169.254]/",
    "http://[fe80::1]/",
    "http://[febf::1]/",
    "http://[fd00:ec2::254]/",
    // carrier NAT, benchmarks, protocol, documentation, multicast, reserved
    "http://100.64.0.1/",
    "http://100.127.255.255/",
    "http://198.18.0.1/",
    "http://198.19.255.255/",
    "http://192.0.0.1/",
    "http://192.0.2.1/",
    "http://198.51.100.1/",
    "http://203.0.113.1/",
    "http://192.88.99.1/",
    "http://224.0.0.1/",
    "http://240.0.0.1/",
    "http://255.255.255.255/",
    "http://4294967295/",
    // IPv6 that is not public, or carries IPv4
    "http://[fc00::1]/",
    "http://[fdff::1]/",
    "http://[fec0::1]/",
    "http://[ff02::1]/",
    "http://[64:ff9b::7f00:1]/",
    "http://[64:ff9b::8.8.8.8]/",
    "http://[64:ff9b:1::1]/",
    "http://[2002:7f00:1::]/",
    "http://[2002:808:808::]/",
    "http://[2001::1]/",
    "http://[2001:db8::1]/",
    "http://[2001:10::1]/",
    "http://[3fff::1]/",
    "http://[5f00::1]/",
    "http://[100::1]/",
    "http://[::ffff:0:127.0.0.1]/",
    // ports, user, schemes
    "http://example.org:22/",
    "http://example.org:25/",
    "http://example.org:6379/",
    "http://example.org:8080/",
    "https://example.org:80443/",
    "http://user@example.org/",
    "http://user:pass@example.org/",
    "http://example.org@127.0.0.1/",
    "ftp://example.org/",
    "file:///etc/passwd",
    "gopher://example.org/",
    "data:image/png;base64,AAAA",
    "http://",
    "http:///",
    "//example.org/",
    "http://[fe80::1%25eth0]/",
    "http://256.256.256.256/",
    "http://exa mple.org/",
    "",
];

fn refusal(address: &str) -> Option<Refused> {
    match Url::parse(address) {
        Err(_) => Some(Refused::Malformed),
        Ok(url) => Guard::default().check(&url).err(),
    }
}

#[test]
fn every_spelling_of_a_forbidden_address_is_refused() {
    assert!(REFUSED.len() >= 60, "{}", REFUSED.len());
    for address in REFUSED {
        assert!(refusal(address).is_some(), "{address} got through");
    }
}

#[test]
fn public_addresses_pass_before_dns() {
    for address in [
        "http://example.org/",
        "https://example.org:443/a?b=c",
        "http://8.8.8.8/",
        "http://[2606:4700::1111]/",
        "https://пример.рф/",
        "http://134744072/",
    ] {
        assert_eq!(refusal(address), None, "{address}");
    }
}

/// A scripted DNS: each name has its answers in order, the last one for ever.
#[derive(Default)]
struct Script {
    answers: HashMap<&'static str, Vec<Vec<&'static str>>>,
    asked: Mutex<Vec<String>>,
}

impl Script {
    fn name(mut self, name: &'static str, answers: Vec<Vec<&'static str>>) -> Script {
        self.answers.insert(name, answers);
        self
    }
}

impl Lookup for Script {
    fn lookup(&self, host: String) -> BoxFuture<'static, std::io::Result<Vec<IpAddr>>> {
        let mut asked = self.asked.lock().unwrap();
        let before = asked.iter().filter(|name| **name == host).count();
        asked.push(host.clone());
        let answers = self.answers.get(host.as_str()).cloned().unwrap_or_default();
        let answer = answers.get(before.min(answers.len().max(1) - 1)).cloned().unwrap_or_default();
        Box::pin(async move { Ok(answer.iter().map(|ip| ip.parse().unwrap()).collect()) })
    }
}

/// An egress for which 127.0.0.2 is out in the world and 127.0.0.1 is inside.
fn egress(port: u16, script: Script) -> (Egress, Arc<Script>) {
    let guard = Guard::default().allow_network("127.0.0.2/32".parse().unwrap(), port);
    let script = Arc::new(script);
    (Egress::with_lookup(guard, script.clone(), CONNECT_MAX), script)
}

async fn picture_server(acts: Vec<Act>) -> RawServer {
    RawServer::start_on("127.0.0.2:0", acts, None).await
}

fn picture() -> Act {
    Act::Bytes(http_with(200, &[("Content-Type", "image/png")], PNG))
}

fn moved(status: u16, to: &str) -> Act {
    Act::Bytes(http_with(status, &[("Location", to)], b""))
}

async fn check_refused(egress: &Egress, address: &str, expected: Refused) {
    assert_eq!(egress.fetch(address, 1_000).await, Err(FetchError::Refused(expected)), "{address}");
}

#[tokio::test]
async fn a_public_picture_is_fetched_from_the_address_that_was_judged() {
    let server = picture_server(vec![picture()]).await;
    let port = server.address.port();
    let (egress, script) = egress(port, Script::default().name("pics.test", vec![vec!["127.0.0.2"]]));
    let fetched = egress.fetch(&format!("http://pics.test:{port}/a.png?size=1&sign=x"), 1_000).await.unwrap();
    assert_eq!((fetched.media_type, &fetched.bytes[..]), (MediaType::Png, PNG));
    assert!(server.requests()[0].starts_with("GET /a.png?size=1&sign=x "));
    assert_eq!(script.asked.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_name_that_points_inside_is_refused() {
    let script = Script::default()
        .name("inside.test", vec![vec!["127.0.0.1"]])
        .name("metadata.test", vec![vec!["169.254.169.254"]])
        .name("six.test", vec![vec!["fd00::1"]])
        .name("mapped.test", vec![vec!["::ffff:10.0.0.1"]]);
    let (egress, _) = egress(80, script);
    for name in ["inside.test", "metadata.test", "six.test", "mapped.test"] {
        check_refused(&egress, &format!("http://{name}/"), Refused::Private).await;
    }
}

#[tokio::test]
async fn one_private_answer_among_public_ones_refuses_them_all() {
    let server = picture_server(vec![picture()]).await;
    let port = server.address.port();
    let script = Script::default()
        .name("mixed.test", vec![vec!["127.0.0.2", "127.0.0.1"]])
        .name("mixed6.test", vec![vec!["::1", "127.0.0.2"]]);
    let (egress, _) = egress(port, script);
    for name in ["mixed.test", "mixed6.test"] {
        check_refused(&egress, &format!("http://{name}:{port}/"), Refused::Private).await;
    }
    assert_eq!(server.n_connections(), 0);
}

#[tokio::test]
async fn a_name_that_turns_private_after_the_first_answer_never_reaches_the_inside() {
    let outside = picture_server(vec![moved(302, "/again")]).await;
    let port = outside.address.port();
    let inside = RawServer::start_on(&format!("127.0.0.1:{port}"), vec![picture()], None).await;
    let script = Script::default().name("rebind.test", vec![vec!["127.0.0.2"], vec!["127.0.0.1"]]);
    let (egress, script) = egress(port, script);
    let address = format!("http://rebind.test:{port}/");
    check_refused(&egress, &address, Refused::Private).await;
    check_refused(&egress, &address, Refused::Private).await;
    assert!(script.asked.lock().unwrap().len() >= 2);
    assert_eq!(inside.n_connections(), 0);
}

#[tokio::test]
async fn every_redirect_is_judged_again() {
    for target in
        ["http://127.0.0.1/", "http://169.254.169.254/", "http://[::ffff:7f00:1]/", "http://2130706433/"]
    {
        let server = picture_server(vec![moved(302, target)]).await;
        let (egress, _) = egress(server.address.port(), Script::default());
        check_refused(&egress, &format!("http://{}/", server.address), Refused::Private).await;
    }
    for target in ["file:///etc/passwd", "gopher://example.org/"] {
        let server = picture_server(vec![moved(301, target)]).await;
        let (egress, _) = egress(server.address.port(), Script::default());
        check_refused(&egress, &format!("http://{}/", server.address), Refused::Malformed).await;
    }
}

#[tokio::test]
async fn three_redirects_are_followed_and_a_fourth_is_not() {
    let server = picture_server(vec![moved(301, "/1"), moved(307, "/2"), moved(308, "/3"), picture()]).await;
    let (patient, _) = egress(server.address.port(), Script::default());
    assert!(patient.fetch(&format!("http://{}/", server.address), 1_000).await.is_ok());

    let server = picture_server(vec![moved(302, "/round")]).await;
    let (patient, _) = egress(server.address.port(), Script::default());
    check_refused(&patient, &format!("http://{}/", server.address), Refused::Hops).await;
    assert_eq!(server.n_connections(), HOPS_MAX + 1);
}

#[test]
fn a_redirect_never_goes_from_https_to_http() {
    let from = Url::parse("https://a.test/").unwrap();
    let answer = |to: &str| Answer {
        status: 302,
        headers: vec![("location".into(), to.into())],
        body: Body::Whole(Bytes::new()),
    };
    assert_eq!(next_hop(&from, &answer("http://a.test/b")), Err(Refused::Downgrade));
    assert_eq!(next_hop(&from, &answer("/b")).unwrap().as_str(), "https://a.test/b");
    assert_eq!(next_hop(&from, &Answer::new(302, "text/html", "")), Err(Refused::Redirect));
}

#[tokio::test]
async fn size_and_kind_are_limited() {
    let page = Act::Bytes(http_with(200, &[("Content-Type", "image/png")], b"<html>not a picture</html>"));
    let server = picture_server(vec![picture(), page, Act::json(404, "{}")]).await;
    let (egress, _) = egress(server.address.port(), Script::default());
    let address = format!("http://{}/", server.address);
    assert_eq!(egress.fetch(&address, 5).await, Err(FetchError::TooLarge(5)));
    assert_eq!(egress.fetch(&address, 1_000).await, Err(FetchError::Type));
    assert_eq!(egress.fetch(&address, 1_000).await, Err(FetchError::Status(404)));
}

#[tokio::test]
async fn a_server_that_never_ends_is_left_at_the_deadline() {
    let server = picture_server(vec![Act::ReadThenHang]).await;
    let (egress, _) = egress(server.address.port(), Script::default());
    let egress = egress.deadline(Duration::from_millis(300));
    let error = egress.fetch(&format!("http://{}/", server.address), 1_000).await.unwrap_err();
    assert!(error.is_transient(), "{error}");
}

#[tokio::test]
async fn the_sandbox_is_reachable_only_by_its_own_origin() {
    let sandbox = RawServer::start(vec![picture()]).await;
    let neighbour = RawServer::start(vec![picture()]).await;
    let egress = Egress::new(Guard::default());
    check_refused(&egress, &sandbox.url("/a"), Refused::Port).await;
    egress.guard().allow_loopback_origin(&Url::parse(&sandbox.url("/telegram")).unwrap());
    assert!(egress.fetch(&sandbox.url("/a"), 1_000).await.is_ok());
    check_refused(&egress, &neighbour.url("/a"), Refused::Port).await;
    assert_eq!(neighbour.n_connections(), 0);

    let by_name = format!("http://localhost:{}/a", sandbox.address.port());
    check_refused(&egress, &by_name, Refused::Port).await;
    egress.guard().allow_loopback_origin(&Url::parse(&by_name).unwrap());
    assert!(egress.fetch(&by_name, 1_000).await.is_ok());
}

#[test]
fn a_hole_is_never_opened_outside_loopback() {
    let guard = Guard::default();
    for base in ["http://10.0.0.1:7900/", "http://192.168.0.1/", "http://sandbox.test:7900/"] {
        guard.allow_loopback_origin(&Url::parse(base).unwrap());
    }
    assert!(guard.check(&Url::parse("http://10.0.0.1:7900/x").unwrap()).is_err());
    assert!(guard.check(&Url::parse("http://sandbox.test:7900/x").unwrap()).is_err());
}

#[test]
fn files_are_known_by_their_first_bytes() {
    let check = |bytes: &[u8], expected: Option<MediaType>| assert_eq!(sniff(bytes), expected, "{bytes:?}");
    check(b"\xff\xd8\xff\xe0", Some(MediaType::Jpeg));
    check(PNG, Some(MediaType::Png));
    check(b"GIF89a..", Some(MediaType::Gif));
    check(b"RIFF....WEBPVP8 ", Some(MediaType::Webp));
    check(b"\0\0\0\x20ftypisom", Some(MediaType::Mp4));
    check(b"\x1a\x45\xdf\xa3..", Some(MediaType::Webm));
    check(b"%PDF-1.7", Some(MediaType::Pdf));
    check(b"", None);
    check(b"<svg onload=alert(1)>", None);
    check(b"MZ\x90\0", None);
}
