// What somebody drops on the page.

export interface Dropped {
  file: File;
  path: string;
}

/** The files in a drop, with those in dropped folders; at most 500. */
export async function filesOf(data: DataTransfer): Promise<Dropped[]> {
  const list: Dropped[] = [];
  const walk = async (entry: FileSystemEntry, prefix: string): Promise<void> => {
    if (list.length >= 500) return;
    if (entry.isFile) {
      const file = await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject));
      list.push({ file, path: prefix + file.name });
      return;
    }
    const reader = (entry as FileSystemDirectoryEntry).createReader();
    for (;;) {
      const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
      if (!some.length) return;
      for (const one of some) await walk(one, `${prefix}${entry.name}/`);
    }
  };
  const entries = [...data.items].map((item) => item.webkitGetAsEntry?.()).filter((entry): entry is FileSystemEntry => Boolean(entry));
  for (const entry of entries) await walk(entry, "");
  return list.length ? list : [...data.files].map((file) => ({ file, path: file.name }));
}
