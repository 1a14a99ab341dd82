# shellcheck shell=sh disable=SC2034
# packages.sh: what a build needs of the machine, and how to get it.  demo.sh and .ci/run source it.

packages="build-essential pkg-config libsodium-dev libjansson-dev" # to build and run
check_packages="check"                                             # to test besides

# By what a build would trip over, so that it works on any distribution.
is_there()
{
    case $1 in
    build-essential) command -v cc && command -v c++ && command -v make ;;
    libsodium-dev) pkg-config --exists libsodium ;;
    libjansson-dev) pkg-config --exists jansson ;;
    check) pkg-config --exists check ;;
    *) command -v "$1" ;;
    esac >/dev/null 2>&1
}

# missing_packages PACKAGE...: those of them that are not there.
missing_packages()
{
    for package in "$@"; do
        is_there "$package" || printf '%s ' "$package"
    done
}

# install_packages PACKAGE...: by apt-get, as root or through sudo.
install_packages()
{
    command -v apt-get >/dev/null 2>&1 || return 1
    as_root=
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null 2>&1 || return 1
        as_root=sudo
    fi
    $as_root apt-get -q update && DEBIAN_FRONTEND=noninteractive $as_root apt-get -q install -y "$@"
}

# The CUDA toolkit's folder, by its headers.
cuda_home()
{
    for folder in "${CUDA_HOME:-}" /usr/local/cuda /usr/lib/cuda /opt/cuda; do
        if [ -n "$folder" ] && [ -r "$folder/include/cuda.h" ] && [ -r "$folder/include/nvrtc.h" ]; then
            echo "$folder"
            return 0
        fi
    done
    return 1
}
