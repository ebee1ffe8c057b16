#include "tests/fuzz/nsys_rows.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <charconv>
#include <cstdint>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace corun::fuzz {
namespace {

struct Table {
  const char* name;
  std::vector<const char*> columns;
};

const std::map<char, Table>& tables() {
  static const std::map<char, Table> all = {
      {'K',
       {"CUPTI_ACTIVITY_KIND_KERNEL",
        {"start",
         "end",
         "deviceId",
         "contextId",
         "streamId",
         "correlationId",
         "globalPid",
         "demangledName",
         "shortName",
         "registersPerThread",
         "gridX",
         "gridY",
         "gridZ",
         "blockX",
         "blockY",
         "blockZ",
         "staticSharedMemory",
         "dynamicSharedMemory",
         "clusterX",
         "clusterY",
         "clusterZ"}}},
      {'R', {"CUPTI_ACTIVITY_KIND_RUNTIME", {"start", "end", "globalTid", "correlationId", "nameId"}}},
      {'C',
       {"CUPTI_ACTIVITY_KIND_MEMCPY",
        {"start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid", "bytes", "copyKind",
         "srcKind", "dstKind"}}},
      {'M',
       {"CUPTI_ACTIVITY_KIND_MEMSET",
        {"start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid", "bytes"}}},
      {'S',
       {"CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
        {"start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid", "syncType"}}},
      {'N', {"NVTX_EVENTS", {"start", "end", "globalTid", "text", "textId"}}},
      {'T', {"StringIds", {"id", "value"}}},
      {'G', {"TARGET_INFO_GPU", {"id", "name", "smCount", "cuDevice"}}},
      {'P', {"PROCESSES", {"globalPid", "pid", "name"}}}};
  return all;
}

void run(sqlite3* db, const std::string& sql) {
  if (sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK)
    throw std::runtime_error(sqlite3_errmsg(db));
}

}  // namespace

void write_rows(const std::filesystem::path& text, const std::filesystem::path& database) {
  std::filesystem::remove(database);
  sqlite3* db = nullptr;
  if (sqlite3_open(database.c_str(), &db) != SQLITE_OK) throw std::runtime_error("no database");
  run(db, "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; BEGIN");
  std::map<char, sqlite3_stmt*> inserts;
  std::ifstream in(text, std::ios::binary);
  for (std::string line; std::getline(in, line);) {
    const auto table = line.empty() ? tables().end() : tables().find(line.front());
    if (table == tables().end()) continue;
    const auto& [name, columns] = table->second;
    sqlite3_stmt*& insert = inserts[table->first];
    if (insert == nullptr) {
      run(db, fmt::format("CREATE TABLE {} ({})", name, fmt::join(columns, ",")));
      const std::vector<const char*> marks(columns.size(), "?");
      sqlite3_prepare_v2(db, fmt::format("INSERT INTO {} VALUES ({})", name, fmt::join(marks, ",")).c_str(), -1,
                         &insert, nullptr);
    }
    sqlite3_reset(insert);
    sqlite3_clear_bindings(insert);
    std::size_t at = 1;
    for (int column = 1; column <= static_cast<int>(columns.size()) && at < line.size(); ++column) {
      at = line.find_first_not_of(' ', at);
      if (at == std::string::npos) break;
      const std::size_t end = std::min(line.find(' ', at), line.size());
      const std::string word = line.substr(at, end - at);
      std::int64_t number = 0;
      const auto read = std::from_chars(word.data(), word.data() + word.size(), number);
      if (read.ec == std::errc{} && read.ptr == word.data() + word.size())
        sqlite3_bind_int64(insert, column, number);
      else if (word != "-")
        sqlite3_bind_text(insert, column, word.data(), static_cast<int>(word.size()), SQLITE_TRANSIENT);
      at = end;
    }
    sqlite3_step(insert);
  }
  for (const auto& [table, insert] : inserts) sqlite3_finalize(insert);
  run(db, "COMMIT");
  sqlite3_close(db);
}

}  // namespace corun::fuzz
