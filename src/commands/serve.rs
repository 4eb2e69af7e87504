//! `portcullis serve`: the reference homeserver, from the configuration to the last answer.

use std::io::{self, IsTerminal as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use portcullis::ClientOutboundProxyPolicy;
use portcullis::homeserver::admin::{Admin, RequestPoolStatus};
use portcullis::homeserver::assemble::{Assembled, assemble, no_circle};
use portcullis::homeserver::config::{Config, LogConfig, LogFormat, LogLevel};
use portcullis::homeserver::descriptors::{ADMIN_CONNECTIONS, Descriptors, OutboundNeeds};
use portcullis::homeserver::listener::{Listener, ListenerLimits};
use portcullis::homeserver::upstream::Upstream;
use tokio::sync::watch;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::service_manager::{News, notify};
use super::{DONE, Trouble, say, start_trouble, status, tell};

/// Threads that drive the listeners' sockets. They never wait for another server.
const LISTENER_THREADS: usize = 2;

/// Threads that read files for clients, a piece at a time; more than a disk serves side by side. Clients beyond them wait a
/// few reads for their next piece. Without this bound there could be as many as there are connections, each with a stack.
const FILE_THREADS: usize = 16;

pub(crate) fn run(file: Option<&Path>) -> ExitCode {
    status(serve(file))
}

fn serve(file: Option<&Path>) -> Result<u8, Trouble> {
    let config = match file {
        Some(file) => Config::read_with_files(file)?,
        None => Config::without_file(),
    };
    start_logging(config.log);
    if file.is_some() {
        for warning in config.warnings() {
            tracing::warn!(target: "portcullis::config", "{warning}");
        }
    } else {
        tell(&format!(
            "no configuration: serving the empty homeserver {} with a throw-away key; remote lookups are on",
            config.server_name
        ));
    }
    let max_connections = max_connections(&config)?;
    let assembled = assemble(&config)
        .map_err(|first| start_trouble(&config).unwrap_or_else(|| Trouble::from(first.located(&config))))?;
    let limits = ListenerLimits { max_connections, ..assembled.limits.clone() };
    let assembled = assembled.within(limits);
    let (clients, operator) = bind(&config)?;
    no_circle(&config, &[("listen", clients.local_addr()), ("admin_listen", operator.local_addr())])
        .map_err(|error| Trouble::from(error.located(&config)))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(LISTENER_THREADS)
        .max_blocking_threads(FILE_THREADS)
        .thread_name("listener")
        .enable_all()
        .build()?;
    runtime.block_on(listen(clients, operator, &config, &assembled))?;
    // The threads end before the process does: what was taken on is finished.
    drop(runtime);
    drop(assembled);
    Ok(DONE)
}

/// How many client connections the limit of open files leaves room for.
fn max_connections(config: &Config) -> Result<usize, Trouble> {
    let descriptors = Descriptors::raised();
    let wanted = ListenerLimits::default().max_connections;
    let policy = ClientOutboundProxyPolicy::for_pool(config.request_threads);
    let media = config.media.policy().remote_fetch_enabled.then_some(config.media.limits);
    let needs = OutboundNeeds::of(policy, media);
    let needs = if config.upstream.is_some() { needs.in_front_of_another() } else { needs };
    let granted = descriptors.client_connections(wanted, needs)?;
    if granted < wanted {
        let limit = descriptors.limit().unwrap_or_default();
        tracing::warn!(
            target: "portcullis::serve",
            "the limit of open files is {limit}: there is room for {granted} client connections, not {wanted}"
        );
    }
    Ok(granted)
}

/// Both sockets, or what is wrong with either.
fn bind(config: &Config) -> Result<(Listener, Listener), Trouble> {
    let bound = |key, address: SocketAddr| {
        Listener::bind(address)
            .map_err(|error| config.problem(key, format!("cannot listen on {address}: {error}")).to_string())
    };
    match (bound("listen", config.listen), bound("admin_listen", config.admin_listen)) {
        (Ok(clients), Ok(operator)) => Ok((clients, operator)),
        (clients, operator) => {
            let problems: Vec<_> = [clients.err(), operator.err()].into_iter().flatten().collect();
            Err(problems.join("\n").into())
        }
    }
}

/// Serves both sockets until the first signal and its drain, or until the second signal.
async fn listen(clients: Listener, operator: Listener, config: &Config, assembled: &Assembled) -> io::Result<()> {
    let mut signals = Signals::listen()?;
    let (stop, stopping) = watch::channel(false);
    let (stop_showing, showing) = watch::channel(false);
    let until_stopped = |mut stopping: watch::Receiver<bool>| async move {
        // The sender's end would mean the same.
        drop(stopping.wait_for(|stop| *stop).await);
    };
    let listening = format!("listening on {}, admin on {}", clients.local_addr(), operator.local_addr());
    let admin = Arc::new(admin(operator.local_addr(), assembled));
    let clients = clients.serve(assembled.handler(), assembled.limits.clone(), until_stopped(stopping));
    let for_operator = ListenerLimits { max_connections: ADMIN_CONNECTIONS, ..ListenerLimits::default() };
    let shown: Arc<Admin> = Arc::clone(&admin);
    let operator = operator.serve(shown, for_operator, until_stopped(showing));
    say(&listening);
    tracing::info!(target: "portcullis::serve", server_name = %config.server_name, "{listening}");
    // Ends with the runtime.
    tokio::spawn(assembled.look_after_signature());
    // Whoever connects from now on waits in the sockets' queues for a moment at most.
    notify(News::Ready);
    let served = async {
        // The operator sees the drain to its end.
        let clients = clients.map(|ended| ended.map(|()| stop_showing.send_replace(true)));
        tokio::try_join!(clients, operator).map(drop)
    };
    tokio::select! {
        ended = served => ended,
        () = async {
            signals.next().await;
            tracing::info!(target: "portcullis::serve", "stopping: requests in flight are answered first");
            notify(News::Stopping);
            admin.drain();
            stop.send_replace(true);
            signals.next().await;
            tracing::info!(target: "portcullis::serve", "stopping at once: requests in flight are cut short");
            // Their threads end with them.
            assembled.runtime.outbound().drain(Duration::ZERO).await;
        } => Ok(()),
    }
}

/// What the operator is shown.
fn admin(bound: SocketAddr, assembled: &Assembled) -> Admin {
    let (runtime, pool) = (Arc::clone(&assembled.runtime), Arc::downgrade(&assembled.pool));
    let (counted, in_front) = (Arc::clone(&assembled.runtime), Arc::clone(&assembled.runtime));
    let long_answers = assembled.long_answers.clone();
    let admin = Admin::new(bound, move || runtime.outbound().status());
    let admin = admin.with_long_answers(move || long_answers.status());
    let admin = admin.with_upstream(move || in_front.upstream().map(Upstream::status));
    admin.with_request_pool(move || {
        // Whoever holds the last of the pool waits for its threads, so that this holds none.
        pool.upgrade().map(|pool| RequestPoolStatus::of(&pool, counted.panicked())).unwrap_or_default()
    })
}

/// SIGTERM and SIGINT.
struct Signals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    #[cfg(unix)]
    fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    #[cfg(unix)]
    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    #[cfg(not(unix))]
    fn listen() -> io::Result<Self> {
        Ok(Self {})
    }

    #[cfg(not(unix))]
    async fn next(&mut self) {
        drop(tokio::signal::ctrl_c().await);
    }
}

/// Log lines go to standard error. What libraries say counts from "warn" on.
fn start_logging(log: LogConfig) {
    let level = match log.level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let filter = Targets::new().with_default(level.min(LevelFilter::WARN)).with_target("portcullis", level);
    let registry = tracing_subscriber::registry().with(filter);
    let lines = tracing_subscriber::fmt::layer().with_ansi(io::stderr().is_terminal()).with_writer(io::stderr);
    // Only a second start in one process could fail here, and then the first one's lines go on.
    drop(match log.format {
        LogFormat::Text => registry.with(lines).try_init(),
        LogFormat::Json => registry.with(lines.json()).try_init(),
    });
}
