#!/bin/sh
# An assembler for the tests of the tools: rejects kernels that set the number of warps, or that have REJECT_WORD in them.
case "$1" in
  --version) echo 'Cuda compilation tools, release 13.5, V'; exit 0 ;;
  --list-versions) echo 13.1 13.2 13.3 13.4; exit 0 ;;
esac
for word; do
  if [ -f "$word" ] && grep -q "${REJECT_WORD:-num_worker_warps_per_cta}" "$word"; then
    echo 'error: too many warps' >&2
    exit 1
  fi
  last=$word
done
printf '\177ELF' > "$last"
head -c 200 /dev/zero >> "$last"
