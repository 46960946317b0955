// Files of tuning records: a first line that says what it is and how many records follow, then one record a line.
#pragma once
#include <string>
#include <vector>

#include "tessera/jit/tuning_record.hpp"

namespace tessera {

/// Every record of a file. Throws IoError that names the file and the line: it is not there, of another kind or
/// version, cut short, damaged, or changed by hand. Then none of its records is returned.
std::vector<TuningRecord> read_records(const std::string& path);

/// Adds a record, or replaces the one of the same space, arguments, device and assembler; makes the file if there is
/// none. Any number of processes may add to one file. Throws IoError (also if what is there is no such file: it is left
/// as it is).
void add_record(const std::string& path, const TuningRecord& record);

}  // namespace tessera
