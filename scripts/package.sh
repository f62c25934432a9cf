#!/usr/bin/env bash
# package.sh [DIR]
#
# Builds a Debian package and a tarball of the module into DIR (default target/packages):
#
#   orderwheel_VERSION_ARCH.deb             the module in /usr/lib/orderwheel, a man page, docs
#   orderwheel-VERSION-ARCH-linux.tar.gz    the same files for other systems
#   SHA256SUMS                              of both
#
# Run twice it makes the same bytes, in whatever folder and CARGO_TARGET_DIR: times are
# those of the last commit (or SOURCE_DATE_EPOCH), paths are taken out, files stand in order
# and belong to root. Without git, times are those of CHANGELOG.md, and it says so. Debug
# information is left out; build with cargo to have it. Says what is lacking.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

case ${1:-} in -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;; -*) fail "no such option: $1" ;; esac
out=${1:-$target/packages}
# Before minutes of building.
mkdir -p "$out" || fail "$out can not be made"
[ -w "$out" ] || fail "$out can not be written to"
if [ -n "$(git -C "$root" status --porcelain -- src docs scripts '*.md' 'Cargo.*' LICENSE redis.conf.example 2>/dev/null)" ]; then
  say "package: there are changes that are not committed: these are not the bytes of that commit" >&2
fi
"$root/scripts/setup.sh"
for tool in dpkg-deb objdump strip python3; do
  command -v "$tool" >/dev/null || fail "$tool is lacking: apt-get install dpkg binutils python3"
done

# dpkg-deb writes other bytes with another number of threads.
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC DPKG_DEB_THREADS_MAX=1
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
  if ! SOURCE_DATE_EPOCH=$(git -C "$root" log -1 --format=%ct 2>/dev/null); then
    say "package: git does not tell the time of the last commit: $(git -C "$root" log -1 2>&1 | head -n 1)" >&2
    say "package: files get the time of CHANGELOG.md" >&2
    SOURCE_DATE_EPOCH=$(stat -c %Y "$root/CHANGELOG.md")
  fi
fi
case $SOURCE_DATE_EPOCH in *[!0-9]* | '') fail "SOURCE_DATE_EPOCH is no number: $SOURCE_DATE_EPOCH" ;; esac
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$root/Cargo.toml" | head -n 1)
arch=$(dpkg --print-architecture)
umask 022

# --- the module, without the paths of this machine -------------------------------
say "package: building"
cargo_home=${CARGO_HOME:-$HOME/.cargo}
# The last one that fits counts, and the others may lie in the first one. Also for what the
# C compiler builds: paths in debug information change the build id, which stays.
places=("$root=/orderwheel" "$cargo_home=/cargo" "$target/package=/target")
rustflags=("${places[@]/#/--remap-path-prefix=}")
# Separated by a byte that no path has.
printf -v CARGO_ENCODED_RUSTFLAGS '\x1f%s' "${rustflags[@]}"
export CARGO_ENCODED_RUSTFLAGS=${CARGO_ENCODED_RUSTFLAGS#?}
printf -v CFLAGS -- '-ffile-prefix-map=%q ' "${places[@]}"
export CFLAGS CC_SHELL_ESCAPED_FLAGS=1
CARGO_TARGET_DIR=$target/package \
  cargo build --release --locked --quiet --lib --manifest-path "$root/Cargo.toml"

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
lib=$stage/deb/usr/lib/orderwheel
doc=$stage/deb/usr/share/doc/orderwheel
man=$stage/deb/usr/share/man/man7
mkdir -p "$lib" "$doc/docs" "$doc/licenses" "$man" "$stage/deb/DEBIAN"
strip --strip-unneeded -o "$lib/liborderwheel.so" "$target/package/release/liborderwheel.so"

# --- what comes with it ------------------------------------------------------------
sed 's|^loadmodule .*|loadmodule /usr/lib/orderwheel/liborderwheel.so|' "$root/redis.conf.example" >"$doc/redis.conf.example"
cp "$root/README.md" "$root/README.zh-CN.md" "$doc/"
(cd "$root/docs" && find . \( -name '*.md' -o -name '*.svg' \) -exec cp --parents -t "$doc/docs" {} +)
gzip -9nc "$root/CHANGELOG.md" >"$doc/changelog.gz"
sed "s/@VERSION@/$version/" "$root/scripts/package/orderwheel.7" | gzip -9nc >"$man/orderwheel.7.gz"
# Who wrote what is linked in, under which licence, and those texts.
python3 "$root/scripts/package/licences.py" "$root" "$doc"
find "$stage/deb" -type f -exec chmod 644 {} +
# Redis loads no module that may not be executed.
chmod 755 "$lib/liborderwheel.so"

# --- the Debian package ------------------------------------------------------------
glibc=$(objdump -T "$lib/liborderwheel.so" | grep -oE 'GLIBC_[0-9.]+' | sort -uV | tail -n 1 | cut -d_ -f2)
size=$(du -sk --apparent-size "$stage/deb/usr" | cut -f1)
cat >"$stage/deb/DEBIAN/control" <<END
Package: orderwheel
Version: $version
Architecture: $arch
Maintainer: the orderwheel authors <orderwheel@localhost.invalid>
Section: database
Priority: optional
Installed-Size: $size
Depends: libc6 (>= $glibc), libgcc-s1 (>= 3.0)
Recommends: redis-server (>= 5:7.0) | valkey-server (>= 8.0)
Description: Redis module that closes unpaid orders on time
 Deadlines, claims with leases, retries, dead letters, locks with fencing tokens
 and idempotency in redis-server itself, saved and replicated with its data.
 .
 Add a line to redis.conf: loadmodule /usr/lib/orderwheel/liborderwheel.so
END
(cd "$stage/deb" && find usr -type f | sort | xargs md5sum >DEBIAN/md5sums)
chmod 644 "$stage/deb/DEBIAN"/*
find "$stage" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
dpkg-deb --root-owner-group --build -Zxz "$stage/deb" "$out/orderwheel_${version}_$arch.deb" >/dev/null

# --- the tarball ---------------------------------------------------------------------
name=orderwheel-$version-$(uname -m)-linux
mkdir "$stage/$name"
cp "$lib/liborderwheel.so" "$root/LICENSE" "$stage/$name/"
cp -r "$doc/." "$stage/$name/"
sed -i 's|^loadmodule .*|loadmodule /path/to/liborderwheel.so|' "$stage/$name/redis.conf.example"
tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -C "$stage" -cf - "$name" |
  gzip -9n >"$out/$name.tar.gz"
(cd "$out" && sha256sum "orderwheel_${version}_$arch.deb" "$name.tar.gz" >SHA256SUMS)
say "package: $out"
cat "$out/SHA256SUMS"
