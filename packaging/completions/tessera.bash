# Completion of tessera in bash. Made by scripts/docs/command_pages.py --write
_tessera() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} offered='' i
  if [ "$COMP_CWORD" = 1 ]; then
    mapfile -t COMPREPLY < <(compgen -W 'doctor get-tileiras cache build explain opt run verify bench tune lint help --help --version' -- "$word")
    return
  fi
  if [[ ' build explain bench lint ' == *" $command "* ]]; then
    for ((i = 2; i < COMP_CWORD; i++)); do
      [ "${COMP_WORDS[i]}" = -- ] || continue
      if [ $i = $((COMP_CWORD - 1)) ]; then
        mapfile -t COMPREPLY < <(compgen -A command -A file -- "$word")
      else
        mapfile -t COMPREPLY < <(compgen -A file -- "$word")
      fi
      return
    done
  fi
  case $command:$before in
    get-tileiras:--release | get-tileiras:--bundle | build:-o | build:--list | opt:-o | bench:--svg | bench:--json | tune:--list | tune:--out | lint:--clang-query)
      mapfile -t COMPREPLY < <(compgen -A file -- "$word")
      return
      ;;
    get-tileiras:--index | build:--gpu | build:-j | explain:--gpu | explain:--kernel | explain:--after | explain:--device | opt:--target | opt:--passes | opt:--until | opt:--bytecode | run:--grid | run:--entry | bench:--device | bench:--ms | bench:--most-ms | tune:--device | tune:--seconds | tune:--hints | tune:--gpu | tune:-j | lint:-p)
      COMPREPLY=()
      return
      ;;
  esac
  case $command in
    doctor) offered='' ;;
    get-tileiras) offered='--where --force --index --release --bundle' ;;
    cache) offered='list size clear learnt forget merge' ;;
    build) offered='-o --gpu -j --list --' ;;
    explain) offered='--gpu --kernel -v --after --passes --device --' ;;
    opt) offered='--target --passes --until --locations --bytecode -o' ;;
    run) offered='--with --grid --tensors --checked --entry' ;;
    verify) offered='' ;;
    bench) offered='--list --device --ms --most-ms --svg --json --' ;;
    tune) offered='--plan --list --out --device --again --seconds --hints --dry-run --gpu -j -v' ;;
    lint) offered='-p --clang-query --' ;;
    help) offered='' ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$offered" -- "$word")
  [ ${#COMPREPLY[@]} != 0 ] || [[ $word == -* ]] || mapfile -t COMPREPLY < <(compgen -A file -- "$word")
}
complete -o filenames -F _tessera tessera
