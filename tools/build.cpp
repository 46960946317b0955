// Ahead-of-time compilation: the program runs on the CPU and records which kernels it launches with which properties;
// these are assembled for every requested GPU.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collecting.hpp"
#include "command_rows.hpp"
#include "tessera/base/format.hpp"
#include "tessera/jit/bundle.hpp"
#include "tessera/jit/cubin.hpp"
#include "tessera/jit/forms.hpp"

namespace tessera {
namespace {

constexpr double kMaxJobs = 1024;

struct BuildOptions {
  std::string output, gpus = "sm_90", list;
  unsigned jobs = std::max(1u, std::thread::hardware_concurrency());
  std::vector<char*> program;
};

BuildOptions parse_build(Words words) {
  const Given given(row_of("build"), words);
  BuildOptions o;
  if (!given.words().empty()) throw UsageError(concat("expected -- before the program, found ", given.words()[0]));
  o.output = given.text("-o");
  check_gpus(o.gpus = given.text("--gpu", o.gpus));
  o.list = given.text("--list");
  o.jobs = static_cast<unsigned>(std::min(given.number("-j", o.jobs, 1), kMaxJobs));
  o.program = given.program();
  if (!o.program.empty() && o.output.empty()) throw UsageError("expected -o FILE, the bundle to write");
  if (o.program.empty() && o.list.empty()) throw UsageError("expected -o FILE ... -- PROGRAM, or --list FILE");
  if (!o.list.empty() && (!o.output.empty() || !o.program.empty()))
    throw UsageError("--list FILE and -o FILE exclude each other");
  return o;
}

using Entry = std::pair<jit::CacheKey, jit::CachedCubin>;

/// Compiles the form that a launch would use; sets `note` if it is not the chosen one.
Entry compiled(const jit::Collected& kernel, std::string& note) {
  auto best = jit::best_form(
      kernel.forms, stored_form,
      [&](const StoredForm& s) {
        return jit::make_cubin(s.bytecode, kernel.gpu, kernel.label, jit::effort_of(s.form, s.patient)).code;
      },
      jit::notes_of);
  const jit::Form form = best.prepared.form;
  if (form != jit::Form::Chosen)
    note = concat("  form ", jit::name_of(form), " (", jit::text_of(form),
                  "): ", best.reason.substr(0, best.reason.find('\n')));
  return {jit::form_key(kernel.key, form), std::move(best.made)};
}

/// Assembles all kernels, `jobs` at a time; stops at the first failure.
std::vector<Entry> assemble(const std::vector<jit::Collected>& kernels, unsigned jobs) {
  std::vector<Entry> made(kernels.size());
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  const auto work = [&] {
    for (std::size_t i; (i = next.fetch_add(1)) < kernels.size();) {
      const jit::Collected& k = kernels[i];
      std::string note;
      try {
        made[i] = compiled(k, note);
        const std::lock_guard lock(mutex);
        if (made[i].second.register_pressure) note += "  register pressure: slow";
        std::printf("  %-24s %-7s %8.1f KiB%s\n", k.label.c_str(), k.gpu.c_str(),
                    static_cast<double>(made[i].second.cubin.size()) / 1024, note.c_str());
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        next = kernels.size();
      }
    }
  };
  std::vector<std::thread> threads;
  for (unsigned j = 1; j < std::min<std::size_t>(jobs, kernels.size()); ++j) threads.emplace_back(work);
  work();
  for (std::thread& t : threads) t.join();
  if (failure) std::rethrow_exception(failure);
  return made;
}

int list_bundle(const std::string& path) {
  const auto entries = jit::Bundle(path).list();
  for (const jit::CachedCubin& e : entries) {
    std::printf("%-24s %-7s %8.1f KiB  assembler %s\n", e.label.c_str(), e.gpu.c_str(),
                static_cast<double>(e.cubin.size()) / 1024, e.assembler.c_str());
  }
  std::printf("%zu kernels\n", entries.size());
  return 0;
}

}  // namespace

int build_command(Words words) {
  if (asks_for_help(words)) return print_usage(row_of("build"));
  BuildOptions o;
  try {
    o = parse_build(words);
  } catch (const UsageError& error) { return report_usage(row_of("build"), error); }
  if (!o.list.empty()) return list_bundle(o.list);
  const TemporaryFolder folder;
  if (const int code = run_collecting(o.program, o.gpus, folder.path); code != 0) {
    std::fprintf(stderr, "tessera build: %s ended with code %d: no bundle was made\n", o.program[0], code);
    return 1;
  }
  const auto kernels = jit::collected(folder.path);
  if (kernels.empty()) {
    std::fprintf(stderr, "tessera build: %s launched no kernel: no bundle was made\n", o.program[0]);
    return 1;
  }
  jit::write_bundle(o.output, assemble(kernels, o.jobs));
  std::printf("%zu kernels in %s\n", kernels.size(), o.output.c_str());
  return 0;
}

}  // namespace tessera
