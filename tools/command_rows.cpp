// The rows of the tessera command's subcommands.
#include "command_rows.hpp"

namespace tessera {
namespace {

constexpr UsageForm kDoctorForms[] = {
    {"tessera doctor",
     "reports the processor, the GPUs, the assembler, the caches and the environment variables that are set."},
};

constexpr UsageForm kGetTileirasForms[] = {
    {"tessera get-tileiras [options]",
     "fetches NVIDIA's Tile IR assembler from the Python package index into the user's cache, where Tessera looks for "
     "it: 120 MB to "
     "download, 230 MB kept. The files are NVIDIA's, under the CUDA EULA: for your use, not to be handed out with a "
     "project. "
     "It downloads with curl, wget, Python or apt's own helper, whichever is there, checks SHA-256 sums, and does "
     "nothing if "
     "everything is in place."},
};
constexpr OptionRow kGetTileirasOptions[] = {
    {"--where", nullptr, "prints the folder, whether or not it is there yet, and does nothing else"},
    {"--force", nullptr, "fetches again even if everything is in place"},
    {"--index", "URL", "the package index (default: PIP_INDEX_URL, else https://pypi.org/simple)"},
    {"--release", "FILE",
     "takes the names and SHA-256 sums of the packages from FILE: lines of ARCHITECTURE PACKAGE NAME SHA256"},
    {"--bundle", "FILE",
     "also packs what compiling needs as FILE (tar.xz, at most 54 MiB), for a machine without a network"},
};

constexpr UsageForm kCacheForms[] = {
    {"tessera cache [list]", "lists compiled kernels on disk, the last used first."},
    {"tessera cache size", "prints their number and size."},
    {"tessera cache clear", "removes all of them."},
    {"tessera cache learnt", "lists what kernels have learnt on this machine (TESSERA_LEARN): hints, and times."},
    {"tessera cache forget [KERNEL]", "removes what kernels have learnt whose names contain KERNEL, or all of it."},
    {"tessera cache merge FILE", "adds what was learnt elsewhere, a copy of another machine's learnt.tune."},
};

constexpr UsageForm kBuildForms[] = {
    {"tessera build -o FILE [--gpu sm_90[,sm_100...]] [-j N] -- PROGRAM [ARGUMENTS...]",
     "runs PROGRAM on the CPU and compiles every kernel that it launches for these GPUs into the bundle FILE. PROGRAM "
     "finds it as "
     "PROGRAM.tessera, or by TESSERA_BUNDLE=FILE, and needs no assembler then."},
    {"tessera build --list FILE", "lists the kernels of a bundle."},
};
constexpr OptionRow kBuildOptions[] = {
    {"-o", "FILE", "the bundle to write"},
    {"--gpu", "LIST", "GPUs to compile for, separated by commas (default: sm_90)"},
    {"-j", "N", "compilations at a time (default: the processors)"},
    {"--list", "FILE", "lists the kernels of this bundle"},
};

constexpr UsageForm kExplainForms[] = {
    {"tessera explain [--gpu sm_90[,sm_100...]] [--kernel NAME] -- PROGRAM [ARGUMENTS...]",
     "runs PROGRAM on the CPU and reports, for every kernel that it launches (whose name contains NAME), which "
     "predicates do not "
     "hold, how each load and store accesses memory, and the assembler's remarks."},
    {"tessera explain --after PASS[,PASS...]|all ...",
     "prints the IR of each kernel after these passes instead; takes all other options."},
    {"tessera explain [--gpu ...] [--device D] KERNEL [key=value ...]",
     "explains one of the library's kernels (tessera bench --list); with a GPU, or with --device, also prints its time "
     "and its share "
     "of the device's roofline."},
};
constexpr OptionRow kExplainOptions[] = {
    {"--gpu", "LIST", "GPUs to compile for, separated by commas (default: sm_90)"},
    {"--kernel", "NAME", "only kernels of the program whose names contain NAME"},
    {"-v", nullptr, "all predicates of the launches, not only those that do not hold"},
    {"--after", "PASSES", "prints the IR after these passes, separated by commas; all: after each"},
    {"--passes", nullptr, "lists the passes"},
    {"--device", "D", "measures on this device: cpu, cuda, cuda:1"},
};

constexpr UsageForm kOptForms[] = {
    {"tessera opt [options] FILE",
     "reads Tile IR, as text or as bytecode, runs the compiler's passes on it for a GPU, and prints the text of the "
     "result. Nothing is known of the launch, so passes that need its sizes do not run."},
    {"tessera opt --passes none [--bytecode VERSION -o OUT] FILE", "converts between text and bytecode."},
};
constexpr OptionRow kOptOptions[] = {
    {"--target", "GPU", "the GPU to optimize for, or cpu (default: sm_90)"},
    {"--passes", "LIST",
     "only these passes, separated by commas, in the order of the pipeline (tessera explain --passes); none: no pass"},
    {"--until", "PASS", "the passes up to this one"},
    {"--locations", nullptr, "prints the place of every operation in the user's program"},
    {"--bytecode", "VERSION", "writes bytecode of this version (13.1 to 13.4) instead of text"},
    {"-o", "FILE", "writes FILE instead of printing; FILE.tilebc is written as bytecode"},
};

constexpr UsageForm kRunForms[] = {
    {"tessera run [options] FILE [--with] VALUE...",
     "runs an entry of FILE, Tile IR as text or as bytecode, on the CPU. Its arguments are the values in their order: "
     "a number; for an address an array, x.npy, which is read, x.npy=y.npy, which is written to y.npy afterwards, or "
     "f32[4,8]=y.npy, a new one of zeros; for an address of i64 also a list of arrays of one rank, "
     "[x.npy,f32[4]=y.npy], "
     "which has the address, extents and strides of each."},
};
constexpr OptionRow kRunOptions[] = {
    {"--with", nullptr, "what follows are the values (for readers: it may be left out)"},
    {"--grid", "X,Y,Z", "the number of blocks along each axis (default: 1,1,1)"},
    {"--tensors", nullptr,
     "every array also fills the arguments after its address, with its extents and strides in elements, as recorded "
     "kernels and those of cuTile take them, and a list with the number of its arrays"},
    {"--checked", nullptr, "finds accesses outside the arrays, reads of what was never written, and races"},
    {"--entry", "NAME", "the entry to run, if FILE has several"},
};

constexpr UsageForm kVerifyForms[] = {
    {"tessera verify FILE...",
     "reads Tile IR, as text or as bytecode, and reports everything that breaks its rules, with the place. It exits "
     "with 1 if it has found something."},
};

constexpr UsageForm kBenchForms[] = {
    {"tessera bench [options] KERNEL [key=values ...] [-- PROGRAM [ARGUMENTS...]]",
     "measures a kernel over sizes and prints times, rates, and the share of what the device's memory and arithmetic "
     "allow. Values "
     "are lists and ranges: n=1024..65536 (doubling) dtype=f32,f16. Without PROGRAM: the library's kernels. PROGRAM is "
     "a benchmark "
     "of your own: its main() calls measure::run_cases (docs/tools.md)."},
    {"tessera bench --list [-- PROGRAM]", "prints the kernels and their default sizes."},
};
constexpr OptionRow kBenchOptions[] = {
    {"--list", nullptr, "prints the kernels and their default sizes"},
    {"--device", "D", "cpu, cuda, cuda:1 (default: as for any program)"},
    {"--ms", "N", "time for each size, in milliseconds (default: 150)"},
    {"--most-ms", "N", "ends a series when one launch takes longer (default: 400)"},
    {"--svg", "FILE", "draws the rates"},
    {"--json", "FILE", "writes the figures (-: prints them instead of the table)"},
};

constexpr UsageForm kTuneForms[] = {
    {"tessera tune [options] KERNEL key=value ... [, KERNEL key=value ...]",
     "measures tiles and hints of the library's kernels for these shapes."},
    {"tessera tune [options] --plan", "measures the shapes of the project's benchmarks."},
    {"tessera tune --list [FILE]", "lists the kernels that can be tuned, or the records of a file."},
};
constexpr OptionRow kTuneOptions[] = {
    {"--plan", nullptr, "the shapes of the project's benchmarks"},
    {"--list", "[FILE]", "lists the kernels that can be tuned, or the records of FILE"},
    {"--out", "FILE", "writes records to FILE; an interrupted run continues, and known results are kept"},
    {"--device", "D", "measures on this device: cpu, cuda, cuda:1 (default: as for any program)"},
    {"--again", nullptr, "measures again even if FILE has a record that is not stale"},
    {"--seconds", "N", "measures for N seconds, the most promising points first (default: all points)"},
    {"--hints", "HINTS", "hints to try instead of the kernel's: \"warps=2,4 latency=2,6\"; \"-\" for none"},
    {"--dry-run", nullptr, "compiles every point and prints registers and spills; needs no GPU"},
    {"--gpu", "GPU", "the GPU of --dry-run (default: sm_90)"},
    {"-j", "N", "compilations at a time"},
    {"-v", nullptr, "prints every point, not only the best"},
};

constexpr UsageForm kLintForms[] = {
    {"tessera lint [-p BUILD] FILE... [-- COMPILER OPTIONS...]",
     "finds host variables that are assigned in tile_if, tile_while or loops of the device, which happens once, while "
     "the "
     "kernel is recorded, and `continue` in tile_if, which only ends the arm. It needs clang-query 14 or newer, and "
     "does not "
     "see what is assigned through a function or a reference. A line that means it carries the comment "
     "NOLINT(assignment) or "
     "NOLINT(continue). It exits with 1 if it has found something."},
};
constexpr OptionRow kLintOptions[] = {
    {"-p", "BUILD", "the folder with the compile_commands.json that has the files' options"},
    {"--clang-query", "FILE", "the program to search with (default: the newest clang-query on the path)"},
};

constexpr UsageForm kHelpForms[] = {{"tessera help", "prints the list of commands."}};

constexpr CommandRow kRows[] = {
    {"doctor",
     "reports what this machine has for compiling and running kernels, and how to fix what is missing",
     kDoctorForms,
     {}},
    {"get-tileiras", "fetches NVIDIA's assembler, which compiles kernels for GPUs", kGetTileirasForms,
     kGetTileirasOptions},
    {"cache",
     "lists or clears the compiled kernels on disk, and what they have learnt",
     kCacheForms,
     {},
     "list size clear learnt forget merge"},
    {"build", "compiles a program's kernels ahead of time into a bundle", kBuildForms, kBuildOptions, "", true},
    {"explain", "reports how a program's kernels are compiled: predicates, accesses, hints, the assembler's remarks",
     kExplainForms, kExplainOptions, "", true},
    {"opt", "runs the compiler's passes on a file of Tile IR, or converts between text and bytecode", kOptForms,
     kOptOptions},
    {"run", "runs a file of Tile IR on the CPU, over arrays in .npy files", kRunForms, kRunOptions},
    {"verify", "reports everything that is wrong with files of Tile IR", kVerifyForms, {}},
    {"bench", "measures the library's or your own kernels over sizes: tables and charts", kBenchForms, kBenchOptions,
     "", true},
    {"tune", "measures tiles and hints of the library's kernels for given shapes, and records the best", kTuneForms,
     kTuneOptions},
    {"lint", "finds host variables and continue in the recorded parts of kernels, which do not do what they say",
     kLintForms, kLintOptions, "", true},
    {"help", "prints the list of commands", kHelpForms, {}},
};

}  // namespace

std::span<const CommandRow> command_rows() { return kRows; }

}  // namespace tessera
