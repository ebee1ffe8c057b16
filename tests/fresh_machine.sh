#!/usr/bin/env bash
# Do the Dockerfile and the README hold on a machine with nothing on it? Clones the last commit into a clean Debian 12,
# and runs the Dockerfile's steps, then `make demo` and `make test` there. Needs root and debootstrap.
#
#   tests/fresh_machine.sh [folder]     a given folder keeps the clean system, so that a second run starts at once
set -euo pipefail

repository=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:-$(mktemp -d)}
[ $# -gt 0 ] || trap 'rm -rf "$folder"' EXIT
clean=$folder/clean
machine=$folder/machine

# The suites this host already uses: its mirror, and its security updates.
suites=$(apt-get indextargets --format '$(ORIGIN) deb $(REPO_URI) $(CODENAME) $(COMPONENT)' 'Created-By: Packages' |
  sed -n '/ bookworm[^ ]* main$/s/^Debian //p' | sort -u)
mirror=$(awk '$3 == "bookworm" { print $2; exit }' <<<"$suites")
[ -n "$mirror" ] || { echo "No Debian 12 mirror in the apt sources of this machine" >&2; exit 1; }

if [ ! -e "$clean.done" ]; then
  rm -rf "$clean"
  mkdir -p "$clean"
  debootstrap --variant=minbase bookworm "$clean" "$mirror" >"$folder/debootstrap.log" ||
    { tail "$folder/debootstrap.log"; exit 1; }
  touch "$clean.done"
fi

rm -rf "$machine"
cp -a "$clean" "$machine"
echo "$suites" >"$machine/etc/apt/sources.list"
cp /etc/resolv.conf "$machine/etc/resolv.conf"
git clone --quiet --no-hardlinks "$repository" "$machine/root/corun"

# inside <name> <command>: runs it in the fresh machine and says how long it took
inside() {
  local name=$1 log=$folder/${1// /-}.log start=$SECONDS status=0
  unshare --mount --pid --fork --mount-proc="$machine/proc" chroot "$machine" \
    env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    bash -c "cd /root/corun && $2" >"$log" 2>&1 || status=$?
  if [ $status != 0 ]; then
    tail -n 40 "$log"
    echo "FAILED: $name, after $((SECONDS - start)) s"
    exit 1
  fi
  echo "ok: $name, $((SECONDS - start)) s"
}

# The image's copy has no .git (.dockerignore), so the steps must do without.
mv "$machine/root/corun/.git" "$machine/root/corun.git"
mapfile -t steps < <(sed -n 's/^RUN //p' "$repository/Dockerfile")
for i in "${!steps[@]}"; do
  inside "Dockerfile step $((i + 1))" "${steps[i]}"
done
mv "$machine/root/corun.git" "$machine/root/corun/.git"
inside "make demo" "make demo"
tail -n 40 "$folder/make-demo.log"
inside "make test" "make test"
tail -n 3 "$folder/make-test.log"
inside "make demo again" "make demo"
inside "nothing to commit" 'test -z "$(git status --porcelain)"'
