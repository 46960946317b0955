// A sample of the kernels that bench/generality writes as a newcomer does, without the library's tables: what a pass of
// the compiler changes shows there, too.
#include "case.hpp"
#include "generality/cases.hpp"

namespace compare {
namespace {

Ready of_entry(const generality::Entry& entry, const Args& args) {
  args.number("seed", 1);  // their inputs have seeds of their own
  const generality::Plan plan = entry.plan(args);
  const generality::Prepared prepared = plan.ready(args).prepared;
  Ready r;
  r.launch = prepared.launch;
  r.poison = [] {};  // their outputs are poisoned where they are made
  r.check = [prepared]() -> Verdict {
    const measure::Accuracy found = prepared.check();
    return {found.error, found.tolerance, 0};
  };
  r.sets = prepared.sets;
  r.bytes = prepared.bytes;
  r.flops = prepared.flops;
  return r;
}

}  // namespace

std::vector<Case> user_cases() {
  std::vector<Case> cases;
  for (auto some : {generality::column_entries, generality::window_entries, generality::transformer_entries,
                    generality::vector_entries}) {
    for (const generality::Entry& entry : some())
      cases.push_back({entry.name, [entry](const Args& args) { return of_entry(entry, args); }});
  }
  return cases;
}

}  // namespace compare
