#!/usr/bin/env bash
# Writes the certificates of this folder anew: an authority, a server and a client of its, and a stranger's authority.
# They are for tests only, valid from 2020 to 2120, and their private keys are known to everybody. Needs openssl 3.
set -euo pipefail
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
cat > "$work/ca.cnf" <<CNF
[ca]
default_ca = it
[it]
database = $work/index
new_certs_dir = $work
rand_serial = yes
default_md = sha256
policy = any
copy_extensions = copy
[any]
commonName = supplied
[req]
distinguished_name = name
[name]
CNF
touch "$work/index"
key() { openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$work/$1.key" 2> /dev/null; }
signed() { openssl ca -batch -notext -config "$work/ca.cnf" -startdate 20200101000000Z -enddate 21200101000000Z "$@" 2> /dev/null; }
authority() {
  key "$1"
  openssl req -new -config "$work/ca.cnf" -key "$work/$1.key" -subj "/CN=$1" -out "$work/$1.csr" \
    -addext basicConstraints=critical,CA:true -addext keyUsage=critical,keyCertSign
  signed -selfsign -keyfile "$work/$1.key" -in "$work/$1.csr" -out "$1.pem"
}
member() {
  key "$1"
  openssl req -new -config "$work/ca.cnf" -key "$work/$1.key" -subj "/CN=$1" -out "$work/$1.csr" -addext "$2"
  signed -keyfile "$work/authority.key" -cert authority.pem -in "$work/$1.csr" -out "$work/$1.crt"
  cat "$work/$1.key" "$work/$1.crt" > "$1.pem"
}
authority authority
authority stranger
member server subjectAltName=DNS:localhost,IP:127.0.0.1
member client extendedKeyUsage=clientAuth
openssl pkcs8 -topk8 -v2 aes-256-cbc -passout pass:key-secret -in "$work/client.key" > client-encrypted.pem
cat "$work/client.crt" >> client-encrypted.pem
