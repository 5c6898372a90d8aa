// convoy index: an index for a tar that exists already.
#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "cli/data/bar.h"
#include "cli/data/words.h"
#include "cli/rows.h"
#include "cli/writes.h"
#include "convoy/data/packed.h"

namespace convoy::cli {
namespace {

struct IndexArguments {
  std::string tar;
  std::string classes;
  std::string json;
};

void run_index(const IndexArguments& arguments) {
  Rows rows(arguments.json);
  Bar bar("index", "MB", rows.on_standard_output());
  data::IndexTarOptions options;
  options.classes = arguments.classes;
  options.tell = [&bar](double done, double total) {
    bar.update(done / kMegabyte, total / kMegabyte);
  };
  const data::IndexTarResult result = data::index_tar(arguments.tar, options);
  bar.finish();
  rows.add({{"index", result.index},
            {"records", result.records},
            {"classes", result.classes},
            {"labels", result.labels},
            {"label_lists", result.label_lists},
            {"others", result.others},
            {"auxiliary", result.auxiliary},
            {"lone_labels", result.lone_labels},
            {"links", result.links},
            {"classes_by_first_folders", result.classes_by_first_folders}});
  if (rows.on_standard_output()) return;
  std::printf("%s: %s of %s", result.index.c_str(), counted(result.records, "image").c_str(),
              counted(result.classes, "class").c_str());
  if (result.label_lists)
    std::printf(", %s, any number for each", counted(result.labels, "label").c_str());
  std::printf("; %s else in the tar", counted(result.others, "file").c_str());
  if (result.auxiliary > 0)
    std::printf(", of them %s with a second extension", counted(result.auxiliary, "image").c_str());
  if (result.lone_labels > 0)
    std::printf(", %s of labels without an image", counted(result.lone_labels, "file").c_str());
  if (result.links > 0)
    std::printf(", of them %s that are links to others", counted(result.links, "image").c_str());
  std::printf("\n");
  print_other_classes(result.classes_by_first_folders);
}

}  // namespace

void add_index_command(CLI::App& app) {
  const auto arguments = std::make_shared<IndexArguments>();
  CLI::App* command = app.add_subcommand(
      "index",
      "Make the index of a tar with images, so that it can be trained on as it is\n"
      "Images are the members KEY.jpg, KEY.jpeg and KEY.png, where KEY holds no dot: KEY.mask.png\n"
      "is not the sample's image. Labels stand in the members KEY.cls (WebDataset), any number of\n"
      "them for an image in KEY.cls.json as a list ([0, 2]), or else folders are classes.");
  command->add_option("tar", arguments->tar, "The tar; its index will be FILE.tar.index")
      ->type_name("FILE.tar")
      ->required();
  command
      ->add_option("--classes", arguments->classes,
                   "The names of the classes in the order of labels, one a line")
      ->type_name("FILE");
  command->add_option("--json", arguments->json, "The result as one object ('-': standard output)")
      ->type_name("FILE")
      ->check(writes_file(kTableFile));
  command->callback([arguments] { run_index(*arguments); });
}

}  // namespace convoy::cli
