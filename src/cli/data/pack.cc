// convoy pack: images of any source in one tar with an index.
#include <chrono>
#include <cstdio>
#include <memory>

#include "cli/checks.h"
#include "cli/commands.h"
#include "cli/data/bar.h"
#include "cli/data/words.h"
#include "cli/rows.h"
#include "cli/writes.h"
#include "convoy/base/error.h"
#include "convoy/base/system.h"
#include "convoy/base/units.h"
#include "convoy/data/pack.h"

namespace convoy::cli {
namespace {

constexpr const char* kPackDescription =
    "Pack images into one tar with an index, resized for training (docs/packing.md)\n"
    "SOURCE is a folder with a subfolder per class, a tar (also .tar.gz, also of tars), an IDX "
    "file "
    "of\n"
    "images, or CIFAR's .bin files. With --label-table images have any number of labels each. A\n"
    "pack that was interrupted goes on when it is started again.";

struct PackArguments {
  std::vector<std::string> paths;
  data::PackOptions options;
  std::string chroma = "420";
  int threads = 0;
  std::string json;
};

void print(const data::PackOptions& options, const data::PackResult& r, double seconds) {
  std::printf("%s: %s of %s, %s, in %s\n", options.out.c_str(), counted(r.records, "image").c_str(),
              counted(r.classes, "class").c_str(), format_bytes(r.bytes).c_str(),
              format_seconds(seconds).c_str());
  std::printf("stored   %llu as they were, %llu changed", number(r.unchanged),
              number(r.records - r.unchanged));
  if (r.resumed > 0) std::printf("; %llu of an earlier run", number(r.resumed));
  if (r.others > 0) std::printf("; no picture: %s", counted(r.others, "file").c_str());
  if (r.label_lists) std::printf("\nlabels   %llu, any number for each image", number(r.labels));
  if (r.unused_lines > 0) {
    std::printf("\nlabels   %s of %s without an image", counted(r.unused_lines, "line").c_str(),
                options.labels.c_str());
  }
  std::printf("\n");
  print_other_classes(r.classes_by_first_folders);
  std::printf("index    %s\nreport   %s: %llu bad, %llu renamed\n", r.index.c_str(),
              r.report.c_str(), number(r.bad), number(r.renamed));
  std::fflush(stdout);
}

void run_pack(PackArguments& arguments) {
  data::PackOptions& options = arguments.options;
  if (arguments.paths.size() < 2) {
    throw UsageError("it takes a source and the tar to write: convoy pack photos/ photos.tar");
  }
  options.sources = arguments.paths;
  options.out = options.sources.back();
  options.sources.pop_back();
  options.chroma = arguments.chroma == "444" ? data::Chroma::full : data::Chroma::half;
  options.threads =
      arguments.threads > 0 ? arguments.threads : static_cast<int>(usable_cores().size());
  Rows rows(arguments.json);
  Bar bar("pack", "images", rows.on_standard_output());
  options.tell = [&bar](const data::PackProgress& p) {
    bar.update(static_cast<double>(p.done), static_cast<double>(p.total),
               format_bytes(p.bytes) + (p.bad > 0 ? ", " + std::to_string(p.bad) + " bad" : ""));
  };
  const auto begin = std::chrono::steady_clock::now();
  const data::PackResult result = data::pack(options);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  bar.finish();
  rows.add({{"file", options.out},
            {"records", result.records},
            {"classes", result.classes},
            {"classes_by_first_folders", result.classes_by_first_folders},
            {"labels", result.labels},
            {"label_lists", result.label_lists},
            {"bytes", result.bytes},
            {"unchanged", result.unchanged},
            {"bad", result.bad},
            {"others", result.others},
            {"unused_lines", result.unused_lines},
            {"renamed", result.renamed},
            {"resumed", result.resumed},
            {"index", result.index},
            {"report", result.report},
            {"time_s", seconds}});
  if (!rows.on_standard_output()) print(options, result, seconds);
  if (result.bad > 0) {
    std::fprintf(stderr, "convoy pack: warning: %llu of %s left out as bad: %s\n",
                 number(result.bad), counted(result.bad + result.records, "image").c_str(),
                 result.report.c_str());
  }
}

}  // namespace

void add_pack_command(CLI::App& app) {
  const auto arguments = std::make_shared<PackArguments>();
  data::PackOptions& options = arguments->options;
  CLI::App* command = app.add_subcommand("pack", kPackDescription);
  command->add_option("paths", arguments->paths, "What to pack, and the tar to write last")
      ->type_name("SOURCE OUT")
      ->required();
  command
      ->add_option("--short-side", options.short_side,
                   "Make images smaller whose short side is longer; 0: none")
      ->capture_default_str();
  command->add_option("--quality", options.quality, "JPEG quality of images that are changed")
      ->capture_default_str();
  command->add_option("--chroma", arguments->chroma, "Their color samples: 420 or 444")
      ->check(CLI::IsMember({"420", "444"}))
      ->capture_default_str();
  command->add_flag("--keep", options.keep, "Store the bytes of all images as they are");
  command->add_option("--limit", options.limit, "Only the first N images")->type_name("N");
  command
      ->add_option("--shuffle", options.shuffle,
                   "In a random order that this seed fixes, instead of the source's")
      ->type_name("SEED");
  command->add_option("--below", options.below, "Of a tar: only what lies below this folder")
      ->type_name("FOLDER");
  command
      ->add_option(
          "--labels", options.labels,
          "Lines 'NAME CLASS' for images in no folder of their class (NAME: the path, or the "
          "file's name if no line has a folder); of IDX, the labels")
      ->type_name("FILE");
  command
      ->add_option(
          "--label-table", options.label_table,
          "Lines 'PATH<tab>CLASS,CLASS': any number of labels for each image of a folder or "
          "tar")
      ->type_name("FILE");
  command
      ->add_option("--classes", options.classes,
                   "The names of the classes in the order of labels, one a line")
      ->type_name("FILE");
  command->add_option("--threads", arguments->threads, "Threads (as many as there are cores)")
      ->type_name("T")
      ->check(positive_integer());
  command->add_flag("--overwrite", options.overwrite, "Replace OUT if it exists");
  command->add_option("--json", arguments->json, "The result as one object ('-': standard output)")
      ->type_name("FILE")
      ->check(writes_file(kTableFile));
  command->callback([arguments] { run_pack(*arguments); });
}

}  // namespace convoy::cli
