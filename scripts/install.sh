# shellcheck shell=bash disable=SC2154 # The scripts that source this set `target`.
# Finds the programs that the tests need and installs the missing ones, from Debian's packages where it may.

# apt-get runs as root, or through sudo without a password.
as_root=(env)
if [[ $EUID -ne 0 ]]; then
    as_root=(sudo -n)
fi
as_root+=(env DEBIAN_FRONTEND=noninteractive)

# need PROGRAM ADVICE: ends the script with the advice where packages cannot be installed.
need() {
    if ! command -v apt-get >/dev/null || ! "${as_root[@]}" true 2>/dev/null; then
        printf 'The tests need %s. %s\n' "$1" "$2" >&2
        exit 1
    fi
    echo "installing $1"
}

# A fresh machine may be updating its packages: apt-get waits until that process releases its locks.
wait_for_lock=(-o DPkg::Lock::Timeout=300)

apt_updated=
apt_install() {
    if [[ -z $apt_updated ]]; then
        "${as_root[@]}" apt-get "${wait_for_lock[@]}" update
        apt_updated=yes
    fi
    "${as_root[@]}" apt-get "${wait_for_lock[@]}" install -y --no-install-recommends "$@"
}

has_postgres() {
    # Debian keeps the server's programs out of PATH.
    { command -v initdb && command -v postgres; } >/dev/null ||
        compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null
}

install_postgres() {
    need "the PostgreSQL server (initdb and postgres)" \
        "Install it: on Debian and Ubuntu the package 'postgresql'; elsewhere put both programs into PATH."
    # postgresql-common first: its configuration keeps the package from starting a server. The tests start their own.
    apt_install postgresql-common
    "${as_root[@]}" sed -i 's/^#\?create_main_cluster.*/create_main_cluster = false/' \
        /etc/postgresql-common/createcluster.conf
    apt_install postgresql
}

install_strace() {
    need "strace, which injects disk errors" "Install it (the package 'strace')."
    apt_install strace
}

install_sqlite_shell() {
    need "the shell of SQLite (sqlite3)" "Install it (the package 'sqlite3')."
    apt_install sqlite3
}

has_smtp_server() {
    # Debian's packages are for Debian's Python, which need not be the first in PATH.
    /usr/bin/python3 -c 'import aiosmtpd' 2>/dev/null || python3 -c 'import aiosmtpd' 2>/dev/null
}

install_smtp_server() {
    need "the SMTP server aiosmtpd" \
        "Install it: on Debian and Ubuntu the package 'python3-aiosmtpd'; elsewhere 'pip install aiosmtpd'."
    apt_install python3-aiosmtpd
}

has_nats_server() {
    # Debian keeps it out of the PATH of ordinary users.
    command -v nats-server >/dev/null || [[ -x /usr/sbin/nats-server ]]
}

install_nats_server() {
    need "the broker nats-server" \
        "Install it: on Debian and Ubuntu the package 'nats-server'; elsewhere put the program into PATH."
    # The package would start a broker now and at every boot. The tests start their own.
    if [[ -d /run/systemd/system ]]; then
        "${as_root[@]}" systemctl mask --runtime nats-server.service
    fi
    apt_install nats-server
    if [[ -d /run/systemd/system ]]; then
        "${as_root[@]}" systemctl unmask --runtime nats-server.service
        "${as_root[@]}" systemctl disable --now nats-server.service
    fi
}

has_promtool() { find_tool promtool >/dev/null; }

install_promtool() {
    local folder
    folder=$(mktemp -d)
    extract_packages "$folder" "promtool, which checks the metrics" \
        "Install it: on Debian and Ubuntu the package 'prometheus'; elsewhere put the program into PATH." prometheus
    install -D "$folder/usr/bin/promtool" "$target/tools/bin/promtool"
    rm -r "$folder"
}

has_pgbouncer() {
    command -v pgbouncer >/dev/null || [[ -x /usr/sbin/pgbouncer || -x $target/tools/pgbouncer/pgbouncer ]]
}

install_pgbouncer() {
    local folder
    folder=$(mktemp -d)
    extract_packages "$folder" "the connection pooler PgBouncer" \
        "Install it: on Debian and Ubuntu the package 'pgbouncer'; elsewhere put the program into PATH." \
        pgbouncer libevent-2.1-7 libc-ares2
    install -D "$folder/usr/sbin/pgbouncer" "$target/tools/pgbouncer/pgbouncer"
    find "$folder/usr/lib" -name 'lib*.so.*' -exec cp --dereference {} "$target/tools/pgbouncer/" \;
    # The pooler runs as another user when the tests run as root.
    chmod -R a+rX "$target/tools/pgbouncer"
    rm -r "$folder"
}

# extract_packages FOLDER PROGRAM ADVICE PACKAGE…: extracts packages without installing them, since installed ones would start a
# service now and at every boot. A download needs no root; only new package lists do.
extract_packages() {
    local folder=$1 program=$2 advice=$3
    shift 3
    if ! download_packages "$folder" "$@"; then
        need "$program" "$advice"
        "${as_root[@]}" apt-get "${wait_for_lock[@]}" update
        apt_updated=yes
        download_packages "$folder" "$@"
    fi
}

download_packages() {
    command -v apt-get >/dev/null || return
    (cd "$1" && apt-get download "${@:2}" && for package in *.deb; do dpkg-deb --extract "$package" . || exit; done)
}

has_browser() {
    # Tests use the faster chromium-headless-shell too where it is installed.
    { command -v chromedriver && command -v chromium; } >/dev/null
}

install_browser() {
    need "Chromium and chromedriver" "Install them: on Debian the packages 'chromium' and 'chromium-driver'."
    apt_install chromium chromium-driver fonts-dejavu-core
    # Not every distribution has it; the tests are slower without.
    apt_install chromium-headless-shell || echo "the tests use chromium instead of chromium-headless-shell"
}

# The API fuzzer and its dependencies, at pinned versions, in a Python environment of its own.
fuzzer_versions=crates/cli/tests/it/fuzz/requirements.txt

has_fuzzer() { cmp -s "$fuzzer_versions" "$target/fuzz-venv/installed.txt"; }

install_fuzzer() {
    if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
        need "Python's venv module, for the fuzzer schemathesis" \
            "Install it: on Debian and Ubuntu the package 'python3-venv'."
        apt_install python3-venv
    fi
    echo "installing schemathesis"
    python3 -m venv --clear "$target/fuzz-venv"
    "$target/fuzz-venv/bin/pip" install --quiet --disable-pip-version-check -r "$fuzzer_versions"
    # Last, so that an interrupted installation is repeated.
    cp "$fuzzer_versions" "$target/fuzz-venv/installed.txt"
}

install_all() {
    has_postgres || install_postgres
    command -v strace >/dev/null || install_strace
    command -v sqlite3 >/dev/null || install_sqlite_shell
    has_smtp_server || install_smtp_server
    has_nats_server || install_nats_server
    has_promtool || install_promtool
    has_pgbouncer || install_pgbouncer
    has_browser || install_browser
    has_fuzzer || install_fuzzer
}

# The major version of the compiler's LLVM, which the tools that read its coverage must have too.
llvm_version() { rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p'; }

# find_tool NAME: prints the path of a cargo tool in PATH or in the target directory.
find_tool() { PATH="$target/tools/bin:$PATH" command -v "$1"; }

# install_tool NAME VERSION: installs a cargo tool into the target directory, at a pinned version.
install_tool() {
    if [[ ! -x $target/tools/bin/$1 ]] || ! grep -q "^\"$1 $2 " "$target/tools/.crates.toml" 2>/dev/null; then
        # With the default compiler: the wrapper of the tests is for the workspace only.
        env -u RUSTC_WORKSPACE_WRAPPER CARGO_TARGET_DIR="$target/tools/build" \
            cargo install --locked --quiet --root "$target/tools" "$1@$2"
    fi
}
