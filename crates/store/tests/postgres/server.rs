//! Servers and poolers of a test's own, for what must not be done to the one that all tests share.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A server that is thrown away with the test.
pub(crate) struct Server {
    pub folder: tempfile::TempDir,
    pub port: u16,
}

/// A process that ends with the test.
pub(crate) struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Neither PostgreSQL nor PgBouncer runs as root; then a plain user owns them.
fn as_owner(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    // It becomes the program, so that ending it ends the program.
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--init-groups"]).arg(program);
    command
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().unwrap();
    String::from_utf8_lossy(&id.stdout).trim() == "0"
}

/// The newest of the installed ones, as `./test` takes it.
fn program(name: &str) -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").expect("PostgreSQL is installed: run `./test`");
    let mut found: Vec<PathBuf> =
        versions.map(|entry| entry.unwrap().path().join("bin").join(name)).collect();
    found.retain(|path| path.exists());
    found.sort();
    found.pop().expect("PostgreSQL is installed: run `./test`")
}

fn done(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = [output.stdout.as_slice(), &output.stderr].concat();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&said));
}

pub(crate) fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A folder that the owner of servers may use.
pub(crate) fn owned_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    if is_root() {
        done(Command::new("chown").arg("postgres").arg(folder.path()));
    }
    folder
}

impl Server {
    /// `prepare` may put files into the folder of the data before the server starts.
    pub(crate) fn start(options: &str, prepare: impl FnOnce(&Path)) -> Server {
        let folder = owned_folder();
        let data = folder.path().join("data");
        done(as_owner(&program("initdb")).arg("-D").arg(&data).args([
            "-U",
            "postgres",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
            "--no-sync",
        ]));
        prepare(&data);
        if is_root() {
            done(Command::new("chown").args(["-R", "postgres"]).arg(&data));
        }
        let port = free_port();
        let settings = format!(
            "-h 127.0.0.1 -p {port} -k {} -c fsync=off -c shared_buffers=16MB -c jit=off {options}",
            folder.path().display()
        );
        let log = folder.path().join("log");
        let mut start = as_owner(&program("pg_ctl"));
        start
            .arg("-D")
            .arg(&data)
            .args(["-w", "-t", "60", "-l"])
            .arg(log)
            .arg("-o")
            .arg(settings)
            .arg("start");
        // The server keeps what it inherits; a pipe would never end.
        let status = start.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        assert!(status.unwrap().success(), "the server did not start");
        Server { folder, port }
    }

    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let data = self.folder.path().join("data");
        let mut stop = as_owner(&program("pg_ctl"));
        let _ = stop.arg("-D").arg(data).args(["-m", "immediate", "-w", "stop"]).output();
    }
}

/// PgBouncer in front of a server; returns when it listens.
pub(crate) async fn bouncer(folder: &Path, server_port: u16, mode: &str) -> (Process, u16) {
    let port = free_port();
    let file = folder.join(format!("{mode}.ini"));
    let text = format!(
        "[databases]\n* = host=127.0.0.1 port={server_port} user=postgres\n[pgbouncer]\npool_mode = {mode}\nlisten_addr = 127.0.0.1\n\
         listen_port = {port}\nauth_type = any\nunix_socket_dir =\nignore_startup_parameters = extra_float_digits\n"
    );
    std::fs::write(&file, text).unwrap();
    let program = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"].map(PathBuf::from);
    let program = program.iter().find(|path| path.exists()).expect("PgBouncer is installed: run `./test`");
    let mut command = as_owner(program);
    let child = command.arg(&file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let process = Process(child.unwrap());
    while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    (process, port)
}
