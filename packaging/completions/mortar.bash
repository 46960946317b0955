# Completion of mortar in bash. Made by scripts/docs/command_pages.py --write
_mortar() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} offered='' i
  if [ "$COMP_CWORD" = 1 ]; then
    mapfile -t COMPREPLY < <(compgen -W 'bench chat generate info load logits perplexity serve template tokenize --help --version' -- "$word")
    return
  fi
  case $command:$before in
    bench:--svg | generate:--prompt-file | load:--conversations | load:--tls-ca | load:--svg | logits:--out | perplexity:--file | serve:--api-key-file | serve:--tls-cert | serve:--tls-key | serve:--log | template:--messages | template:--tools | tokenize:--file)
      mapfile -t COMPREPLY < <(compgen -A file -- "$word")
      return
      ;;
    bench:--prompt-tokens | bench:--generate | bench:--context | bench:--batch | bench:--idle | bench:--repetitions | bench:--device | bench:--max-context | bench:--batch-size | bench:--kv-dtype | bench:--tensor-parallel | bench:--random-weights | chat:--max-tokens | chat:--temperature | chat:--top-k | chat:--top-p | chat:--min-p | chat:--repetition-penalty | chat:--presence-penalty | chat:--seed | chat:--stop | chat:--system | chat:--device | chat:--max-context | chat:--batch-size | chat:--kv-dtype | chat:--tensor-parallel | chat:--random-weights | generate:--prompt | generate:--prompt-ids | generate:--logprobs | generate:--max-tokens | generate:--temperature | generate:--top-k | generate:--top-p | generate:--min-p | generate:--repetition-penalty | generate:--presence-penalty | generate:--seed | generate:--stop | generate:--system | generate:--device | generate:--max-context | generate:--batch-size | generate:--kv-dtype | generate:--tensor-parallel | generate:--random-weights | info:--memory | info:--device | info:--max-context | info:--batch-size | info:--kv-dtype | info:--tensor-parallel | info:--random-weights | load:--model | load:--concurrency | load:--rate | load:--requests | load:--prompt-tokens | load:--max-tokens | load:--seed | load:--api-key | load:--timeout | logits:--prompt-ids | logits:--device | logits:--max-context | logits:--batch-size | logits:--kv-dtype | logits:--tensor-parallel | logits:--random-weights | perplexity:--context | perplexity:--device | perplexity:--max-context | perplexity:--batch-size | perplexity:--kv-dtype | perplexity:--tensor-parallel | perplexity:--random-weights | serve:--host | serve:--port | serve:--name | serve:--cors | serve:--max-queue | serve:--max-queue-tokens | serve:--timeout | serve:--drain | serve:--body-limit | serve:--connections-per-address | serve:--min-memory | serve:--step-limit | serve:--metrics-names | serve:--tool-format | serve:--tool-grammar | serve:--reasoning-field | serve:--max-stops | serve:--device | serve:--max-context | serve:--batch-size | serve:--kv-dtype | serve:--tensor-parallel | serve:--random-weights)
      COMPREPLY=()
      return
      ;;
  esac
  case $command in
    bench) offered='--prompt-tokens --generate --context --batch --idle --repetitions --json --svg --fp8-activations --device --max-context --batch-size --kv-dtype --tensor-parallel --exact --random-weights --quiet --help' ;;
    chat) offered='--no-history --max-tokens --greedy --temperature --top-k --top-p --min-p --repetition-penalty --presence-penalty --seed --stop --ignore-eos --think --no-think --system --strict --device --max-context --batch-size --kv-dtype --tensor-parallel --exact --random-weights --quiet --help' ;;
    generate) offered='--prompt --prompt-file --prompt-ids --raw --logprobs --json --max-tokens --greedy --temperature --top-k --top-p --min-p --repetition-penalty --presence-penalty --seed --stop --ignore-eos --think --no-think --system --strict --device --max-context --batch-size --kv-dtype --tensor-parallel --exact --random-weights --quiet --help' ;;
    info) offered='--json --memory --device --max-context --batch-size --kv-dtype --tensor-parallel --exact --random-weights --quiet --help' ;;
    load) offered='--model --concurrency --rate --requests --prompt-tokens --max-tokens --ignore-eos --conversations --seed --api-key --timeout --tls-ca --insecure --json --svg --quiet --help' ;;
    logits) offered='--prompt-ids --out --strict --device --max-context --batch-size --kv-dtype --tensor-parallel --exact --random-weights --quiet --help' ;;
    perplexity) offered='--file --context --json --strict --device --max-context --batch-size --kv-dtype --tensor-parallel --exact --random-weights --quiet --help' ;;
    serve) offered='--host --port --name --api-key-file --cors --tls-cert --tls-key --max-queue --max-queue-tokens --timeout --drain --body-limit --connections-per-address --min-memory --step-limit --metrics-names --tool-format --tool-grammar --reasoning-field --special-tokens --max-stops --log --no-warm-up --fp8-activations --device --max-context --batch-size --kv-dtype --tensor-parallel --exact --random-weights --quiet --help' ;;
    template) offered='--messages --tools --think --no-think --no-generation-prompt --quiet --help' ;;
    tokenize) offered='--file --decode --as-text --skip-special --json --quiet --help' ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$offered" -- "$word")
  [ ${#COMPREPLY[@]} != 0 ] || [[ $word == -* ]] || mapfile -t COMPREPLY < <(compgen -A file -- "$word")
}
complete -o filenames -F _mortar mortar
